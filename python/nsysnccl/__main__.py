"""`python -m nsysnccl` is the program."""

import subprocess
import sys

from nsysnccl import program

sys.exit(subprocess.run([program(), *sys.argv[1:]]).returncode)
