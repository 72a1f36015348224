//! Secrets in text that comes from outside: captured environments, diagnostics, logs and range texts may hold any, and
//! reports are passed on.
//!
//! [`text`] is for text that is shown in any case: what looks like a secret in it is replaced. [`setting`] is for
//! variables of a captured environment, of which nothing is shown unless it is known to be harmless.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// Stands in place of a secret inside a text.
pub(crate) const HIDDEN: &str = "(hidden)";
/// Stands in place of a variable's whole value.
const HIDDEN_VALUE: &str = "(not shown: it may hold credentials)";

/// Names that hold one of these words belong to secrets, however short these are.
const SECRET: &str =
    "secret|passw|passphrase|pwd|credential|psk|private.?key|api.?key|access.?key|signature|bearer";
/// Names of secrets that are names of other things too (tokens of a text, keys of attention, passes over data): only a
/// value that is not a number and not short is hidden.
const PERHAPS_SECRET: &str = "token|key|auth|cred|pass|sig|sas|session|license|cookie|salt";
/// A value behind a name of [`PERHAPS_SECRET`] with fewer characters than this is shown.
const SHORTEST_SECRET: usize = 6;

/// What a value behind `=` or `:` is: in quotes, or up to the next blank.
const VALUE: &str = r#"\\*"[^"\n]*"?|\\*'[^'\n]*'?|[^\s"':][^\s"']*"#;

/// Compiles a pattern of this file. One that is wrong would match nothing, which the tests below would notice.
fn pattern(text: &str) -> Option<Regex> {
    Regex::new(text).ok()
}

/// `scheme://user:password@host`, also without the scheme.
static USER_IN_URL: LazyLock<Option<Regex>> = LazyLock::new(|| pattern(r#"//[^\s"'<>]+@"#));
/// What follows the path of a URL: signatures and access tokens stand there.
static QUERY_OF_URL: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r#"(?P<keep>://[^\s"'<>?#]*[?#])[^\s"'<>]+"#));
/// `user:password@host` without slashes.
static USER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(r#"(?P<before>^|[\s"'=,;({\[])[^\s:/@"'=,;({\[]+:(?P<value>[^\s:/@"'][^\s:/@"']*)@"#)
});
/// Headers whose value has several words.
static HEADER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(
        r"(?i)(?P<keep>\b(?:set-cookie|cookie|(?:proxy-)?authorization)\\*[\x22']?\s*[:=]\s*)[^\n]+",
    )
});
/// `name=value`, `name: value`, `"name": "value"`, `name%3Dvalue` and `--name value`, where the name is one of a secret.
static NAMED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let sign = r#"\\*["']?\s*(?:=>|[=:]|%3[dDaA])\s*"#;
    pattern(&format!(
        r"(?i)(?P<keep>[\w.-]*(?:(?P<sure>{SECRET})|{PERHAPS_SECRET})[\w.-]*{sign}|(?:^|\s)--?[\w-]*(?:(?P<flag>{SECRET})|{PERHAPS_SECRET})[\w-]*\s+)(?P<value>{VALUE})"
    ))
});
/// `Bearer` and `Basic` before what they are followed by in HTTP.
static SCHEME: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"(?P<keep>(?i:\bbearer)\s+|\bBasic\s+)(?P<value>[\w+/=.~-]{6,})"));
/// Tokens that tell by their beginning who gave them out; those with `digit` are told from words by a digit in them.
static SHAPED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(concat!(
        r"(?P<before>^|[^A-Za-z0-9])(?:",
        r"(?P<digit>(?:hf|gh[opsur]|github_pat|glpat|gldt|glsa|npm|pypi|gsk|r8|nvapi|dckr_pat|dop_v1|shpat|tskey|wandb_v1|sk|rk|pk|xox[abeoprs])[_-][A-Za-z0-9_-]{8,}",
        r"|(?:ya29|hvs|SG)\.[A-Za-z0-9_.-]{8,}",
        r"|dapi[0-9a-f]{16,}|AIza[A-Za-z0-9_-]{8,})",
        r"|(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{8,}",
        r"|eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)*",
        r"|hooks\.slack\.com/\S+|discord(?:app)?\.com/api/webhooks/\S+",
        r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*)"
    ))
});

/// `text` with what looks like a secret replaced: users and queries of URLs, values behind names of secrets, and tokens
/// that are known by their shape.
pub(crate) fn text(text: &str) -> Cow<'_, str> {
    let mut out = Cow::Borrowed(text);
    let keep = |c: &Captures<'_>, name: &str| c.name(name).map_or("", |m| m.as_str()).to_owned();
    replace(&mut out, &USER_IN_URL, |_| Some(format!("//{HIDDEN}@")));
    replace(&mut out, &QUERY_OF_URL, |c| Some(keep(c, "keep") + HIDDEN));
    replace(&mut out, &USER, |c| {
        // `step:12@rank3`: a number behind a colon is a count or a port.
        let is_number = keep(c, "value").bytes().all(|b| b.is_ascii_digit());
        (!is_number).then(|| format!("{}{HIDDEN}@", keep(c, "before")))
    });
    replace(&mut out, &HEADER, |c| Some(keep(c, "keep") + HIDDEN));
    replace(&mut out, &SCHEME, |c| Some(keep(c, "keep") + HIDDEN));
    replace(&mut out, &NAMED, |c| {
        let value = keep(c, "value");
        let sure = c.name("sure").or(c.name("flag")).is_some();
        let is_new = !value.starts_with(HIDDEN);
        (is_new && (sure || may_be_secret(&value))).then(|| keep(c, "keep") + HIDDEN)
    });
    replace(&mut out, &SHAPED, |c| {
        let is_word = c
            .name("digit")
            .is_some_and(|m| !m.as_str().bytes().skip(4).any(|b| b.is_ascii_digit()));
        (!is_word).then(|| keep(c, "before") + HIDDEN)
    });
    out
}

/// [`text`] of a text that is at hand anyway.
pub(crate) fn owned(shown: String) -> String {
    match text(&shown) {
        Cow::Borrowed(_) => shown,
        Cow::Owned(redacted) => redacted,
    }
}

/// Replaces every match for which `with` gives a text.
fn replace(
    text: &mut Cow<'_, str>,
    pattern: &LazyLock<Option<Regex>>,
    with: impl Fn(&Captures<'_>) -> Option<String>,
) {
    let Some(pattern) = pattern.as_ref() else { return };
    let replaced = pattern.replace_all(text, |found: &Captures<'_>| {
        with(found).unwrap_or_else(|| found.get(0).map_or("", |m| m.as_str()).to_owned())
    });
    // A match that stays as it is does not make the text another one.
    if let Cow::Owned(replaced) = replaced
        && replaced != *text
    {
        *text = Cow::Owned(replaced);
    }
}

/// True for a value that may be a secret where its name may be the name of something else.
fn may_be_secret(value: &str) -> bool {
    let bare = value.trim_matches(|c: char| !c.is_alphanumeric());
    let is_number = bare.bytes().all(|b| b.is_ascii_digit() || b".,_xX".contains(&b));
    bare.chars().count() >= SHORTEST_SECRET && !is_number
}

/// Variables that NCCL, PyTorch's NCCL backend and the CUDA runtime document: their values are numbers, words of a list,
/// names of devices and paths.
const DOCUMENTED: &[&str] = &[
    "CUDA_CACHE_DISABLE",
    "CUDA_CACHE_MAXSIZE",
    "CUDA_CACHE_PATH",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DEVICE_ORDER",
    "CUDA_HOME",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
    "CUDA_MPS_LOG_DIRECTORY",
    "CUDA_MPS_PIPE_DIRECTORY",
    "CUDA_PATH",
    "CUDA_VISIBLE_DEVICES",
    "NCCL_ALGO",
    "NCCL_COLLNET_ENABLE",
    "NCCL_COLLNET_NODE_THRESHOLD",
    "NCCL_COMM_ID",
    "NCCL_CONF_FILE",
    "NCCL_CROSS_NIC",
    "NCCL_DEBUG",
    "NCCL_DEBUG_FILE",
    "NCCL_DEBUG_SUBSYS",
    "NCCL_DUMP_TOPO",
    "NCCL_GRAPH_DUMP_FILE",
    "NCCL_GRAPH_FILE",
    "NCCL_HOSTID",
    "NCCL_IB_ADDR_FAMILY",
    "NCCL_IB_ADDR_RANGE",
    "NCCL_IB_HCA",
    "NCCL_IB_PKEY",
    "NCCL_INSPECTOR_DUMP_DIR",
    "NCCL_NET",
    "NCCL_NETDEVS_POLICY",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_NET_PLUGIN",
    "NCCL_P2P_LEVEL",
    "NCCL_PROFILER_PLUGIN",
    "NCCL_PROTO",
    "NCCL_PXN_C2C",
    "NCCL_RAS_ADDR",
    "NCCL_SOCKET_FAMILY",
    "NCCL_SOCKET_IFNAME",
    "NCCL_TOPO_DUMP_FILE",
    "NCCL_TOPO_FILE",
    "NCCL_TUNER_CONFIG_FILE",
    "NCCL_TUNER_PLUGIN",
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
    "TORCH_NCCL_TRACE_BUFFER_SIZE",
];

/// Values of switches and levels, which no secret looks like.
const SWITCHES: &[&str] = &[
    "", "true", "false", "on", "off", "yes", "no", "auto", "default", "none", "enable", "disable",
    "enabled", "disabled",
];

/// Beside letters and digits, what lists, paths, addresses and patterns are written with. Quotes, spaces and what a URL's
/// query needs are not among it.
const PLAIN: &str = "_-.,:;/^=+%*~";
/// Letters and digits in a row, of all three kinds, from which on they may be a random token.
const RANDOM: usize = 20;
/// Digits of 2^64: longer numbers are not settings.
const LONGEST_NUMBER: usize = 20;

/// A variable of a captured environment as it may be shown: its value, or that there is one; `None` if not even its name
/// may be shown.
pub(crate) fn setting(name: &str, value: &str) -> Option<String> {
    let shown = || if is_harmless(name, value) { value } else { HIDDEN_VALUE };
    is_setting(name).then(|| shown().to_owned())
}

/// Settings that explain a run and hold no secret: what NCCL and the CUDA runtime read.
pub(crate) fn is_setting(name: &str) -> bool {
    if DOCUMENTED.contains(&name) {
        return true;
    }
    let prefix = ["NCCL_", "CUDA_", "TORCH_NCCL_"].iter().any(|prefix| name.starts_with(prefix));
    let plain = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
    // Images set the version of the NCCL that they were built with, which is not always the one that runs.
    prefix
        && name.len() <= 64
        && name.bytes().all(plain)
        && !name.ends_with("_VERSION")
        && !names_secret(name)
        && text(name) == name
}

/// True for a value that is a number or a switch, or one of a documented variable with no room for credentials: in a URL,
/// or in another variable behind a semicolon.
fn is_harmless(name: &str, value: &str) -> bool {
    let number = value.strip_prefix('-').unwrap_or(value);
    let is_number = number.len() <= LONGEST_NUMBER && number.bytes().all(|b| b.is_ascii_digit());
    if is_number || SWITCHES.iter().any(|switch| value.eq_ignore_ascii_case(switch)) {
        return true;
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || PLAIN.contains(c);
    let another = value.split(';').skip(1).any(|part| part.contains('='));
    DOCUMENTED.contains(&name)
        && value.chars().all(plain)
        && !value.contains("://")
        && !another
        && !names_secret(value)
        && !value.split(|c: char| !c.is_ascii_alphanumeric() && c != '+').any(is_random)
        && text(value) == value
}

fn names_secret(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    SECRET.split('|').chain(PERHAPS_SECRET.split('|')).any(|word| lower.contains(word))
}

/// True for a long word of small and capital letters and digits.
fn is_random(word: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| word.as_bytes().iter().any(kind);
    word.len() >= RANDOM
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_wherever_they_stand_in_a_text() {
        for (shown, expected) in [
            ("cannot open https://me:hunter2@host/x", "cannot open https://(hidden)@host/x"),
            ("https://hunter2@host/", "https://(hidden)@host/"),
            ("//u:hunter2@h/x", "//(hidden)@h/x"),
            ("u:hunter2@h", "(hidden)@h"),
            ("proxy=u:hunter2@h", "proxy=(hidden)@h"),
            ("GET https://h/p?sig=hunter2&a=1 failed", "GET https://h/p?(hidden) failed"),
            ("https://h/p#access_token=hunter2", "https://h/p#(hidden)"),
            ("launched: HF_TOKEN=hunter2 python", "launched: HF_TOKEN=(hidden) python"),
            ("AWS_SECRET_ACCESS_KEY=hunter2", "AWS_SECRET_ACCESS_KEY=(hidden)"),
            ("train.py --api-key hunter2 --lr 1", "train.py --api-key (hidden) --lr 1"),
            ("train.py --token=hunter2 --lr 1", "train.py --token=(hidden) --lr 1"),
            (r#"{"password": "hun ter2", "a": 1}"#, r#"{"password": (hidden), "a": 1}"#),
            (r#"{\"token\":\"hunter2\"}"#, r#"{\"token\":(hidden)}"#),
            ("token: 'hunter2'", "token: (hidden)"),
            ("pwd=x", "pwd=(hidden)"),
            ("password=1234", "password=(hidden)"),
            ("MY_PSK=x, COOKIE=hunter2", "MY_PSK=(hidden) COOKIE=(hidden)"),
            ("sig%3Dhunter2", "sig%3D(hidden)"),
            ("Authorization: Bearer hunter2 x", "Authorization: (hidden)"),
            ("Cookie: a=hunter2; b=hunter2", "Cookie: (hidden)"),
            ("sent Bearer hunter2", "sent Bearer (hidden)"),
            ("with hf_hunter2Hunter2 ok", "with (hidden) ok"),
            ("x=ghp_hunter2hunter2", "x=(hidden)"),
            ("AKIAHUNTER2HUNTER2", "(hidden)"),
            ("eyJhbGciOiJIUzI1NiJ9.eyJodW50ZXIyIn0.hunter2", "(hidden)"),
            ("sk-proj-hunter2hunter2", "(hidden)"),
            ("xoxb-12-hunter2", "(hidden)"),
            ("https://hooks.slack.com/services/T0/B0/hunter2", "https://(hidden)"),
        ] {
            assert_eq!(text(shown), expected, "{shown}");
            assert_eq!(text(&text(shown)), expected, "twice: {shown}");
        }
    }

    #[test]
    fn texts_without_secrets_stay_as_they_are() {
        for plain in [
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
            "void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::token::x>(int)",
            "void cub::DeviceRadixSortOnesweepKernel<Policy, KeyT>(unsigned int)",
            "[with KeyT = float]",
            "step 12: tokens=4096 keys=1,024",
            "num_tokens: 8192",
            "step:12@rank0",
            "forward pass: 3",
            "hf_attention_kernel",
            "sk_gemm_kernel",
            "author 3",
            "https://docs.nvidia.com/nsight-systems/UserGuide/index.html",
            "10.0.0.1:5000",
            "tokenizer encode",
            "basic block",
            "",
        ] {
            assert!(matches!(text(plain), Cow::Borrowed(_)), "{plain} -> {}", text(plain));
        }
    }

    #[test]
    fn settings_are_shown_and_what_may_be_a_secret_is_not() {
        for (name, value) in [
            ("NCCL_DEBUG_FILE", "/tmp/nccl.%h.%p"),
            ("NCCL_IB_HCA", "=mlx5_0:1,mlx5_1:1"),
            ("NCCL_IB_PKEY", "0"),
            ("NCCL_SOCKET_IFNAME", "^lo,docker0"),
            ("NCCL_ALGO", "allreduce:tree;broadcast:ring"),
            ("CUDA_VISIBLE_DEVICES", "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6,1"),
            ("TORCH_NCCL_BLOCKING_WAIT", ""),
            ("NCCL_OF_TOMORROW", "-12"),
            ("NCCL_OF_TOMORROW", "True"),
        ] {
            assert_eq!(setting(name, value).as_deref(), Some(value));
        }
        for value in [
            "hunter2",
            "a;AWS=hunter2",
            "https://user:hunter2@host/",
            "Bearer hunter2",
            "123456789012345678901",
        ] {
            assert_eq!(setting("NCCL_X", value).as_deref(), Some(HIDDEN_VALUE), "{value}");
        }
        for value in [
            "x;PWD2=hunter2;y",
            "https://host/?sig=hunter2",
            "--password hunter2",
            "{\"p\":\"hunter2\"}",
            "1\nX=hunter2",
            "/home/me/.token",
            "ghp_hunter2hunter2",
            "dXNlcjpwYXNzd29yZHVzZXI6cGFzc3dvcmQ",
        ] {
            assert_eq!(setting("NCCL_DEBUG_FILE", value).as_deref(), Some(HIDDEN_VALUE), "{value}");
        }
        for name in [
            "SECRET_TOKEN",
            "NCCL_SECRET_KEY",
            "NCCL_CRED",
            "NCCL_PSK",
            "NCCL_SIGNATURE",
            "CUDA_COOKIE",
            "CUDA_PASSPHRASE",
            "TORCH_NCCL_PWD",
            "NCCL_AKIAHUNTER2HUNTER2",
            "NCCL_A B",
            "NCCL_\nX",
            "nccl_debug",
            "HOME",
            "NCCL_VERSION",
        ] {
            assert_eq!(setting(name, "hunter2"), None, "{name}");
        }
    }
}
