//! The HTML report in a real browser: nothing is requested, nothing fails, nothing breaks out, and it fits a phone.
//!
//! Needs Chromium or Chrome and is skipped without, unless `NSYSNCCL_REQUIRE_BROWSER=1`.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use nsysnccl::render::{Format, Style, print};
use nsysnccl::report::Report;

use crate::fixture;

/// What a browser made of a page.
struct Seen {
    /// The document after its scripts ran.
    dom: String,
    /// Messages on the console.
    console: Vec<String>,
    /// First lines of requests that left the page.
    requests: Vec<String>,
}

/// The browser to use, or `None` if there is none and none is required.
fn browser() -> Option<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let found = names.into_iter().find(|name| {
        Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success())
    });
    if found.is_none() {
        let required = std::env::var_os("NSYSNCCL_REQUIRE_BROWSER").is_some_and(|v| v == "1");
        assert!(!required, "no Chromium found: run `apt-get install -y chromium`");
        println!("skipped: no Chromium or Chrome is installed");
    }
    found
}

/// Opens a page in a new profile. Whatever it requests goes to a proxy that writes it down and answers nothing.
fn open(browser: &str, html: &str, width: u32) -> Seen {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("page.html");
    std::fs::write(&page, html).expect("written");
    let proxy = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = proxy.local_addr().expect("an address").port();
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&requests);
    std::thread::spawn(move || {
        for mut stream in proxy.incoming().flatten() {
            let mut head = [0; 512];
            let n = stream.read(&mut head).unwrap_or(0);
            let line =
                String::from_utf8_lossy(&head[..n]).lines().next().unwrap_or_default().to_owned();
            seen.lock().expect("not poisoned").push(line);
            let _ = stream.write_all(
                b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            );
        }
    });
    let output = run(browser, folder.path(), &page, port, width);
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    let requests = requests
        .lock()
        .expect("not poisoned")
        .iter()
        .filter(|line| !of_the_browser(line))
        .cloned()
        .collect();
    Seen {
        dom: String::from_utf8_lossy(&output.stdout).into_owned(),
        console: log.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect(),
        requests,
    }
}

fn run(browser: &str, folder: &Path, page: &Path, port: u16, width: u32) -> std::process::Output {
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
        ])
        .args([
            "--disable-component-update",
            "--disable-sync",
            "--disable-default-apps",
            "--enable-logging=stderr",
            "--v=0",
        ])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("--proxy-server=http://127.0.0.1:{port}"))
        .arg(format!("--window-size={width},900"))
        .args(["--virtual-time-budget=3000", "--dump-dom"])
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("the browser runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Requests that the browser makes for itself, whatever the page is.
fn of_the_browser(line: &str) -> bool {
    ["google.com", "googleapis.com", "gvt1.com", "gstatic.com", "googleusercontent.com"]
        .iter()
        .any(|host| line.contains(host))
}

fn html(report: &Report) -> String {
    print(report, Format::Html, &Style { width: 100, color: false, full: true })
}

/// The page with a script at its end that leaves what it finds in the title.
fn asked(report: &Report, expression: &str) -> String {
    html(report).replace(
        "</body>",
        &format!("<script>document.title = String({expression});</script></body>"),
    )
}

fn title(seen: &Seen) -> &str {
    seen.dom
        .split_once("<title>")
        .and_then(|(_, rest)| rest.split_once("</title>"))
        .map_or("", |(title, _)| title)
}

#[test]
fn pages_open_without_errors_or_requests() {
    let Some(browser) = browser() else { return };
    for report in [fixture::shm(), fixture::bandwidth(), fixture::graphs(), fixture::hostile()] {
        let seen = open(browser, &html(&report), 1280);
        assert_eq!(seen.console, Vec::<String>::new(), "{}", report.name);
        assert_eq!(seen.requests, Vec::<String>::new(), "{}", report.name);
        assert!(seen.dom.contains("A step takes"), "{}", report.name);
        assert!(seen.dom.contains("<svg"), "{}", report.name);
        assert_eq!(seen.dom.matches("<script").count(), 1, "{}: a name broke out", report.name);
    }
}

/// The checks above can fail: a page that does what they forbid is seen doing it.
#[test]
fn the_browser_would_notice() {
    let Some(browser) = browser() else { return };
    let bad = "<!DOCTYPE html><title>x</title><img src=\"http://outside.example/x.png\"><script>missing()</script>";
    let seen = open(browser, bad, 800);
    assert!(
        seen.console.iter().any(|line| line.contains("missing is not defined")),
        "{:?}",
        seen.console
    );
    assert!(
        seen.requests.iter().any(|line| line.contains("outside.example")),
        "{:?}",
        seen.requests
    );
}

#[test]
fn a_table_sorts_by_its_numbers_and_back() {
    let Some(browser) = browser() else { return };
    // The second column of the second table is the step time: 138.3, 135.7, 144.3, 137.6, 137.0 ms.
    let script = "(() => {
        const table = document.querySelectorAll('table')[1];
        const column = () => [...table.tBodies[0].rows].map((row) => row.cells[1].textContent).join(' ');
        const button = () => table.tHead.rows[0].cells[1].querySelector('button');
        button().click(); const up = column(); button().click();
        return up + ' | ' + column() + ' | ' + table.tHead.rows[0].cells[1].getAttribute('aria-sort');
    })()";
    let seen = open(browser, &asked(&fixture::shm(), script), 1280);
    assert_eq!(
        title(&seen),
        "135.7 137.0 137.6 138.3 144.3 | 144.3 138.3 137.6 137.0 135.7 | descending"
    );
}

#[test]
fn a_phone_scrolls_tables_and_pictures_but_not_the_page() {
    let Some(browser) = browser() else { return };
    for report in [fixture::shm(), fixture::hostile(), fixture::overlapped()] {
        // A browser window has a least width, a frame has not.
        let script = "window.parent.postMessage([document.documentElement.clientWidth, document.documentElement.scrollWidth,
            Math.min(...[...document.querySelectorAll('svg text')].map((t) => Math.floor(t.getBoundingClientRect().height)))].join(' '), '*')";
        let inner = asked(&report, script).replace('&', "&amp;").replace('"', "&quot;");
        let outer = format!(
            "<!DOCTYPE html><title>none</title><script>addEventListener('message', (e) => {{ document.title = e.data; }});</script>
            <iframe style=\"width:390px;height:800px;border:0\" srcdoc=\"{inner}\"></iframe>"
        );
        let seen = open(browser, &outer, 800);
        let numbers: Vec<u32> = title(&seen).split(' ').filter_map(|n| n.parse().ok()).collect();
        let [shown, whole, text] = numbers[..] else { panic!("{}: {}", report.name, title(&seen)) };
        assert!(
            shown <= 390 && whole <= shown,
            "{}: {whole} px wide where {shown} are shown",
            report.name
        );
        assert!(text >= 9, "{}: text of {text} px", report.name);
    }
}
