//! `nvidia-smi topo -m`
