//! A real browser for tests: headless Chromium, driven over a pipe by its own protocol.
//!
//! Owns the process and its folder; both are removed on drop. The protocol is Chrome's DevTools Protocol: JSON
//! messages that end in a zero byte, on descriptors 3 and 4 (`--remote-debugging-pipe`); a shell puts our pipes there.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde_json::{Value, json};
use weir_pglocal::TempFolder;

/// The timeout of one answer, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    pipe: ChildStdin,
    answers: Receiver<Value>,
    session: String,
    last: u64,
    /// The page's uncaught exceptions.
    pub(crate) thrown: Vec<String>,
    _folder: TempFolder,
}

/// Chromium's file, by any of its names.
pub(crate) fn find() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<_> = env::split_paths(&path).collect();
    names.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name))).find(|file| file.is_file())
}

impl Browser {
    pub(crate) fn start(chromium: &PathBuf) -> Browser {
        let folder = TempFolder::new().expect("a temporary folder");
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "exec 3<&0 4>&1 </dev/null >/dev/null 2>&1; exec \"$@\"", "sh"]).arg(chromium);
        command.args(["--headless=new", "--remote-debugging-pipe", "--no-first-run", "--disable-gpu", "--mute-audio"]);
        command.args(["--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"]);
        if nix::unistd::geteuid().is_root() {
            // The browser's sandbox refuses root; only our own page is opened.
            command.arg("--no-sandbox");
        }
        command.arg(format!("--user-data-dir={}", folder.path().display()));
        command.env("HOME", folder.path()).env("TMPDIR", folder.path()).current_dir(folder.path()).process_group(0);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a browser starts");
        let (pipe, out) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let (sender, answers) = channel();
        thread::spawn(move || {
            let mut messages = BufReader::new(out).split(0);
            while let Some(Ok(message)) = messages.next() {
                let value = serde_json::from_slice(&message).expect("the browser speaks JSON");
                if sender.send(value).is_err() {
                    break;
                }
            }
        });
        let (session, thrown) = (String::new(), Vec::new());
        let mut browser = Browser { child, pipe, answers, session, last: 0, thrown, _folder: folder };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", json!({ "targetId": target, "flatten": true }));
        attached["sessionId"].as_str().expect("a session").clone_into(&mut browser.session);
        browser.call("Page.enable", json!({}));
        browser.call("Runtime.enable", json!({}));
        browser
    }

    /// Sends a command to the browser, and waits for its answer.
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.pipe.write_all(format!("{message}\0").as_bytes()).expect("the browser listens");
        loop {
            let answer = self.answers.recv_timeout(TIMEOUT).unwrap_or_else(|e| panic!("{method}: {e}"));
            if answer["method"] == "Runtime.exceptionThrown" {
                self.thrown.push(answer["params"]["exceptionDetails"].to_string());
            }
            if answer["id"] == self.last {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
        }
    }

    /// Opens an address, and waits until it is loaded.
    pub(crate) fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({ "url": url }));
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'", TIMEOUT);
    }

    /// Sets the window's size, and light or dark.
    pub(crate) fn look(&mut self, width: u32, height: u32, scheme: &str) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let feature = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", feature);
    }

    /// The value of a JavaScript expression.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", parameters);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    /// Waits until a JavaScript expression is true.
    pub(crate) fn until(&mut self, expression: &str, timeout: Duration) {
        let end = Instant::now() + timeout;
        while self.value(expression) != json!(true) {
            if Instant::now() > end {
                let shown = self.value("document.body.innerText");
                panic!("not so after {} s: {expression}\n{shown}", timeout.as_secs());
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Clicks in the middle of the first element that matches a selector, with the mouse.
    pub(crate) fn click(&mut self, selector: &str) {
        let find = format!(
            "(() => {{ const e = document.querySelector({selector:?}); e.scrollIntoView({{ block: 'center' }}); \
             const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; }})()"
        );
        let place = self.value(&find);
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({ "type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", event);
        }
    }

    /// Saves a screenshot of the whole page in the folder of `$WEIR_LAB_TEST_PICTURES`, if set.
    pub(crate) fn picture(&mut self, name: &str) {
        let Some(folder) = env::var_os("WEIR_LAB_TEST_PICTURES").map(PathBuf::from) else { return };
        self.value("scrollTo(0, 0)");
        let shot = self.call("Page.captureScreenshot", json!({ "captureBeyondViewport": true }));
        let bytes = base64::engine::general_purpose::STANDARD.decode(shot["data"].as_str().expect("a picture"));
        std::fs::write(folder.join(format!("{name}.png")), bytes.expect("base64")).expect("a picture is written");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The group: Chromium has several processes.
        let _ = killpg(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGKILL);
        let _ = self.child.wait();
    }
}
