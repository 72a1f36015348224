//! The HTML report in a real browser: nothing is requested, nothing fails, nothing breaks out, and it fits a phone.
//!
//! Needs Chromium or Chrome and is skipped without, unless `NSYSNCCL_REQUIRE_BROWSER=1`.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use nsysnccl::internals::render::view::WithTimeline;
use nsysnccl::internals::render::{Format, Style, print};
use nsysnccl::internals::report::Report;
use nsysnccl::internals::report::timeline::Timeline;
use nsysnccl::internals::reporting;
use nsysnccl::internals::run::{Options, Run};

use crate::fixture;
use crate::support::cluster::{ALL_REDUCE, Cluster, MS};
use crate::support::report::stream;

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

/// Texts that would run if a page took them for more than text.
const HOSTILE: &str = "</script><script>document.title='broken'</script><img src=x onerror=\"document.title='broken'\">";

/// The page of a run of two ranks with names that want to break out: three steps of 50 ms, and rank 1 waits 4 ms for rank 0.
fn hostile_run() -> String {
    let mut cluster = Cluster::new(2);
    for s in 1..=3 {
        let t = 100 * MS * s;
        cluster.step(&format!("step {s} {HOSTILE}"), t..t + 60 * MS);
        for rank in &mut cluster.ranks {
            rank.step(HOSTILE, t + MS..t + 40 * MS);
            rank.kernel(HOSTILE, stream(7), t + 2 * MS..t + 20 * MS);
        }
        cluster.collective(&ALL_REDUCE, &[(0, t + 30 * MS), (1, t + 26 * MS)], t + 52 * MS);
    }
    let folder = crate::support::folder();
    let run = Run::read(&cluster.save(&folder), &Options::default(), || ()).expect("a run");
    let page = WithTimeline { report: &reporting::of(&run), timeline: Timeline::of(&run) };
    print(&page, Format::Html, &Style { width: 100, color: false, full: true })
}

/// Opens the page of [`hostile_run`] and, once it is drawn, puts what `body` returns into the title.
fn used(browser: &str, body: &str) -> Seen {
    let script = format!(
        "<script>setTimeout(() => {{
            const canvas = document.querySelector('#timeline canvas');
            const text = (name) => document.querySelector('#timeline ' + name).textContent;
            const at = () => canvas.getBoundingClientRect();
            const pointer = (type, x, y) => canvas.dispatchEvent(new PointerEvent(type, {{ pointerId: 1, clientX: x, clientY: y, bubbles: true }}));
            const key = (name) => canvas.dispatchEvent(new KeyboardEvent('keydown', {{ key: name, bubbles: true }}));
            const hover = (wanted) => {{
                const tip = document.querySelector('#timeline .tip');
                for (let y = at().top; y < at().bottom; y += 2) for (let x = at().left; x < at().right; x += 5) {{
                    pointer('pointermove', x, y);
                    if (!tip.hidden && tip.textContent.includes(wanted)) return [x, y, tip.textContent];
                }}
                return [0, 0, 'nothing'];
            }};
            // A canvas has 300 pixels until it is drawn for the first time.
            const begin = (left) => {{
                if (canvas.width === 300 && left > 0) return setTimeout(() => begin(left - 1), 50);
                document.title = (() => {{ {body} }})();
            }};
            begin(40);
        }}, 500);</script></body>"
    );
    open(browser, &hostile_run().replace("</body>", &script), 1280)
}

#[test]
fn a_timeline_says_what_is_under_the_mouse_and_shows_a_collective_on_all_ranks() {
    let Some(browser) = browser() else { return };
    let seen = used(
        browser,
        "const [x, y, met] = hover('waits'); pointer('pointerdown', x, y); pointer('pointerup', x, y);
         return met + ' | ' + text('.said');",
    );
    assert_eq!(seen.console, Vec::<String>::new());
    assert_eq!(seen.requests, Vec::<String>::new());
    let title = title(&seen);
    for part in [
        "AllReduce on rank 1, 1.05 MB as logged",
        "26.0 ms, from 24.0 ms",
        "transfer 22.0 ms",
        "waits 4.00 ms for rank 0",
        "This collective on 2 ranks here, arrivals 4.00 ms apart",
        "rank 1: arrives first, waits 4.00 ms",
        "rank 0: arrives +4.00 ms, does not wait, last",
    ] {
        assert!(title.contains(part), "{part}: {title}");
    }
}

#[test]
fn a_timeline_has_every_step_and_obeys_keys() {
    let Some(browser) = browser() else { return };
    let seen = used(
        browser,
        "const picker = document.querySelector('#timeline-step');
         const list = [...picker.options].map((o) => o.textContent.slice(0, 6)).join(',');
         picker.value = '2'; picker.dispatchEvent(new Event('change')); const third = text('.about').slice(0, 6);
         key('PageUp'); const second = text('.about').slice(0, 6);
         for (let i = 0; i < 9; i++) key('ArrowDown'); key('ArrowUp'); const chosen = text('.said');
         return [list, third, second, chosen].join(' | ');",
    );
    assert_eq!(seen.console, Vec::<String>::new());
    let title = title(&seen);
    assert!(title.starts_with("step 1,step 2,step 3 | step 3 | step 2 | "), "{title}");
    // Lanes of rank 1 from below: copies have none, communication is the last one with items, compute is above it.
    assert!(title.contains("rank 1, compute"), "{title}");
}

#[test]
fn names_in_a_timeline_stay_text() {
    let Some(browser) = browser() else { return };
    let seen = used(
        browser,
        "const range = hover('rank 0, phases')[2].includes('onerror');
         const step = document.querySelector('#timeline-step').options[0].textContent.includes('onerror');
         const inside = [...document.querySelectorAll('img, #timeline script')].length;
         return `range ${range}, step ${step}, elements ${inside}`;",
    );
    assert_eq!(seen.console, Vec::<String>::new());
    assert_eq!(seen.requests, Vec::<String>::new());
    assert_eq!(title(&seen), "range true, step true, elements 0");
}

/// Without script: the picture of one step instead, and no empty frame.
#[test]
fn without_script_the_picture_of_a_step_stands_there() {
    let Some(browser) = browser() else { return };
    let inner = hostile_run().replace('&', "&amp;").replace('"', "&quot;");
    let outer = format!(
        "<!DOCTYPE html><title>none</title><iframe sandbox=\"allow-same-origin\" style=\"width:1000px;height:800px\" srcdoc=\"{inner}\"></iframe>
        <script>setTimeout(() => {{
            const page = document.querySelector('iframe').contentDocument;
            const tall = (name) => Math.round(page.querySelector(name).getBoundingClientRect().height);
            document.title = tall('.timeline') + ' ' + (tall('.still svg') > 50);
        }}, 1000);</script>"
    );
    let seen = open(browser, &outer, 1280);
    assert_eq!(title(&seen), "0 true");
}
