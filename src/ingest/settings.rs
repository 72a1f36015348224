//! Which variables of a captured environment may be printed: environments hold secrets, and reports are passed on.

/// Stands in place of a value that is not shown.
const HIDDEN: &str = "(not shown: it may hold credentials)";
/// Words that stand beside a secret.
const SECRET_WORDS: [&str; 8] =
    ["TOKEN", "SECRET", "PASS", "PWD", "KEY", "CREDENTIAL", "AUTH", "BEARER"];
/// Beside letters and digits, what lists, paths, addresses and patterns are written with. Quotes, spaces and what a URL's query needs
/// are not among it.
const PLAIN: &str = "_-.,:;/^=+%*~";

/// The value of a variable as it may be printed; `None` if not even its name may.
pub fn shown(name: &str, value: &str) -> Option<String> {
    is_setting(name).then(|| if is_plain(value) { value.to_owned() } else { HIDDEN.to_owned() })
}

/// Settings that explain a run and hold no secret: what NCCL and the CUDA runtime read.
pub fn is_setting(name: &str) -> bool {
    // Images set the version of the NCCL that they were built with, which is not always the one that runs.
    let prefix = ["NCCL_", "CUDA_", "TORCH_NCCL_"].iter().any(|prefix| name.starts_with(prefix))
        && !name.ends_with("_VERSION");
    prefix && !names_secret(name)
}

/// True if a value is one of a setting, with no room for credentials: in a URL, or in another variable behind a semicolon.
fn is_plain(value: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || PLAIN.contains(c);
    let another = value.split(';').skip(1).any(|part| part.contains('='));
    value.chars().all(plain) && !value.contains("://") && !another && !names_secret(value)
}

fn names_secret(text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    SECRET_WORDS.iter().any(|word| upper.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_shown_and_what_may_be_a_secret_is_not() {
        for (name, value) in [
            ("NCCL_DEBUG_FILE", "/tmp/nccl.%h.%p"),
            ("NCCL_IB_HCA", "=mlx5_0:1,mlx5_1:1"),
            ("NCCL_SOCKET_IFNAME", "^lo,docker0"),
            ("NCCL_ALGO", "allreduce:tree;broadcast:ring"),
            ("CUDA_VISIBLE_DEVICES", "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6,1"),
            ("TORCH_NCCL_BLOCKING_WAIT", ""),
        ] {
            assert_eq!(shown(name, value).as_deref(), Some(value));
        }
        for value in [
            "a;AWS=hunter2",
            "x;PWD2=hunter2;y",
            "https://user:hunter2@host/",
            "https://host/?sig=hunter2",
            "--password hunter2",
            "Bearer hunter2",
            "{\"p\":\"hunter2\"}",
            "1\nX=hunter2",
            "/home/me/.token",
        ] {
            assert_eq!(shown("NCCL_X", value).as_deref(), Some(HIDDEN), "{value}");
        }
        for name in [
            "SECRET_TOKEN",
            "NCCL_SECRET_KEY",
            "CUDA_PASSPHRASE",
            "TORCH_NCCL_PWD",
            "nccl_debug",
            "HOME",
            "NCCL_VERSION",
        ] {
            assert_eq!(shown(name, "hunter2"), None, "{name}");
        }
    }
}
