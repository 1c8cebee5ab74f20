//! Programs in a sandbox: what they are kept from, by whatever this machine has.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use logue_message::Arguments;
use logue_tools::sandbox::{Protection, Sandbox, SandboxMode, probe};
use logue_tools::{Python, Roots, ShellOptions, ShellTool, Tool, ToolInvocation, ToolResult};
use serde_json::json;

pub(crate) fn options(mode: SandboxMode) -> ShellOptions {
    ShellOptions::default()
        .with_environment(vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())])
        .with_sandbox(Sandbox::with_launcher(env!("CARGO_BIN_EXE_logue-sandbox")).with_mode(mode))
}

/// The ways of confinement that this machine has. Everything is tested with each.
pub(crate) fn modes() -> Vec<SandboxMode> {
    let mut modes = vec![SandboxMode::Auto];
    if probe().bubblewrap.is_some() {
        modes.push(SandboxMode::Bubblewrap);
    }
    modes
}

async fn call(tool: &dyn Tool, arguments: serde_json::Value) -> ToolResult {
    let arguments = Arguments::from_text(arguments.to_string());
    let call = ToolInvocation::new("c", &arguments);
    tool.call(call).await
}

pub(crate) async fn sh(folder: &Path, script: &str, options: ShellOptions) -> ToolResult {
    let roots = Roots::new([folder.to_owned()]).unwrap();
    let tool = ShellTool::new("t", "sh -c", None, &roots, options).unwrap();
    call(&tool, json!({"arguments": [script]})).await
}

#[tokio::test]
async fn common_tools_work_inside() {
    for mode in modes() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.txt"), "hello\n").unwrap();
        for (script, says) in [
            ("echo hi", "hi\n"),
            ("cat a.txt", "hello\n"),
            ("ls", "a.txt\n"),
            ("grep -c hello a.txt", "1\n"),
            ("echo new > b && cat b && rm b", "new\n"),
            ("echo x > $TMPDIR/t && cat $TMPDIR/t", "x\n"),
            ("echo lost > /dev/null; cat /dev/null", ""),
            ("cd $HOME && ls", ""),
            (
                "chmod 750 a.txt && touch -d @1 a.txt && cp -p a.txt $TMPDIR/b && mv $TMPDIR/b b && \
                 chgrp \"$(id -g)\" b && stat -c '%a %Y' b && rm b",
                "750 1\n",
            ),
            ("awk 'BEGIN {print 6*7}'", "42\n"),
            (
                "git init -q . && git -c user.name=a -c user.email=b commit -q --allow-empty -m first && git log --format=%s",
                "first\n",
            ),
        ] {
            let outcome = sh(folder.path(), script, options(mode)).await;
            assert_eq!(
                outcome,
                ToolResult::success(format!("{says}[exit status 0]")),
                "{mode:?}: {script}"
            );
        }
    }
}

/// A secret of the user's, a place to write to, and listeners, all of it outside of the sandbox.
struct Outside {
    folder: tempfile::TempDir,
    tcp: TcpListener,
    udp: UdpSocket,
    _local: UnixListener,
}

impl Outside {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("secret"), "token-of-the-user\n").unwrap();
        Self {
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
            _local: UnixListener::bind(folder.path().join("service")).unwrap(),
            folder,
        }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// What a program tries that the sandbox keeps it from, and by which guard.
    fn attempts(&self) -> Vec<(Protection, String)> {
        let python = |code: String| format!("python3 -c '{code}'");
        let socket = |kind: &str, rest: String| {
            python(format!(
                "import socket; s = socket.socket({kind}); {rest}; print(\"REACHED\")"
            ))
        };
        let (tcp, udp) = (
            self.tcp.local_addr().unwrap(),
            self.udp.local_addr().unwrap(),
        );
        let here = std::process::id();
        vec![
            (
                Protection::Files,
                format!("cat {} && echo REACHED", self.path("secret")),
            ),
            (
                Protection::Files,
                format!("ls {} && echo REACHED", self.path(".")),
            ),
            (
                Protection::Files,
                "cat /etc/shadow && echo REACHED".to_owned(),
            ),
            (
                Protection::Files,
                format!("cat /proc/{here}/environ && echo REACHED"),
            ),
            (
                Protection::Files,
                format!("echo x > {} && echo REACHED", self.path("new")),
            ),
            (
                Protection::Files,
                format!("echo x >> {} && echo REACHED", self.path("secret")),
            ),
            (
                Protection::Files,
                format!("rm {} && echo REACHED", self.path("secret")),
            ),
            (
                Protection::Files,
                format!("mv {} here && echo REACHED", self.path("secret")),
            ),
            (
                Protection::Files,
                format!(
                    "ln {} here && cat here && echo REACHED",
                    self.path("secret")
                ),
            ),
            (
                Protection::Files,
                format!(
                    "ln -s {} there; cat there && echo REACHED",
                    self.path("secret")
                ),
            ),
            (
                Protection::Files,
                "touch /usr/share/owned && echo REACHED".to_owned(),
            ),
            (
                Protection::Attributes,
                format!("chmod 777 {} && echo REACHED", self.path("secret")),
            ),
            (
                Protection::Attributes,
                format!("chmod 777 {} && echo REACHED", self.path(".")),
            ),
            (
                Protection::Attributes,
                python(format!(
                    "import os; os.utime(\"{}\", (1, 1)); print(\"REACHED\")",
                    self.path("secret")
                )),
            ),
            (
                Protection::Attributes,
                format!("chgrp 12345 {} && echo REACHED", self.path("secret")),
            ),
            (
                Protection::Attributes,
                python(format!(
                    "import os; os.setxattr(\"{}\", \"user.a\", b\"x\"); print(\"REACHED\")",
                    self.path("secret")
                )),
            ),
            (
                Protection::Attributes,
                python(format!(
                    "import os; handle = os.open(\"{}\", os.O_PATH); \
                     os.chmod(f\"/proc/self/fd/{{handle}}\", 0o777); print(\"REACHED\")",
                    self.path("secret")
                )),
            ),
            (
                Protection::Truncation,
                python(format!(
                    "import os; os.truncate(\"{}\", 0); print(\"REACHED\")",
                    self.path("secret")
                )),
            ),
            (
                Protection::Tcp,
                socket("", format!("s.connect((\"127.0.0.1\", {}))", tcp.port())),
            ),
            (
                Protection::Tcp,
                socket("", "s.bind((\"127.0.0.1\", 0)); s.listen()".to_owned()),
            ),
            (
                Protection::OtherNetwork,
                socket(
                    "socket.AF_INET, socket.SOCK_DGRAM",
                    format!("s.connect((\"127.0.0.1\", {})); s.send(b\"x\")", udp.port()),
                ),
            ),
            (
                Protection::LocalSockets,
                socket(
                    "socket.AF_UNIX",
                    format!("s.connect(\"{}\")", self.path("service")),
                ),
            ),
            (
                Protection::Signals,
                format!("kill -0 {here} && echo REACHED"),
            ),
        ]
    }

    /// Whether nothing came through and everything is as it was.
    fn is_unharmed(&self) -> bool {
        self.tcp.set_nonblocking(true).unwrap();
        self.udp.set_nonblocking(true).unwrap();
        let names = fs::read_dir(self.folder.path()).unwrap().count();
        let secret = fs::metadata(self.folder.path().join("secret")).unwrap();
        let folder = fs::metadata(self.folder.path()).unwrap();
        self.tcp.accept().is_err()
            && self.udp.recv(&mut [0; 8]).is_err()
            && names == 2
            && secret.mode() & 0o777 != 0o777
            && folder.mode() & 0o777 != 0o777
            && secret.mtime() != 1
            && secret.gid() != 12345
            && fs::read_to_string(self.folder.path().join("secret")).unwrap()
                == "token-of-the-user\n"
            && !Path::new("/usr/share/owned").exists()
    }
}

#[tokio::test]
async fn what_is_said_to_be_enforced_is_enforced() {
    for mode in modes() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), Outside::new());
        let options = options(mode);
        let status = options.sandbox.status();
        let mut tried = 0;
        for (guard, script) in outside.attempts() {
            if !status.enforced.contains(&guard) {
                // What is not enforced is said so, and is not tried.
                assert!(status.missing.contains(&guard), "{status}");
                continue;
            }
            let outcome = sh(folder.path(), &script, options.clone()).await;
            assert!(!outcome.ok, "{mode:?}: {script}: {outcome:?}");
            assert!(
                !outcome.text.contains("REACHED") && !outcome.text.contains("token-of-the-user"),
                "{mode:?}: {script}: {outcome:?}"
            );
            tried += 1;
        }
        assert!(outside.is_unharmed(), "{mode:?}");
        assert_eq!(status.confines(), tried > 0, "{status}");
    }
}

#[tokio::test]
async fn limits_and_priorities_of_outside_processes_stay() {
    for mode in modes() {
        let folder = tempfile::tempdir().unwrap();
        let mut outside = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = outside.id();
        let script = format!(
            "import os, resource
def attempt(action):
    try: action(); print('DONE')
    except OSError: pass
attempt(lambda: resource.prlimit({pid}, resource.RLIMIT_NOFILE, (7, 7)))
attempt(lambda: os.setpriority(os.PRIO_PROCESS, {pid}, 19))
attempt(lambda: os.setpriority(os.PRIO_USER, 0, 19))
attempt(lambda: os.sched_setaffinity({pid}, {{0}}))
attempt(lambda: os.sched_setscheduler({pid}, os.SCHED_BATCH, os.sched_param(0)))
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
os.sched_setaffinity(0, {{0}})
os.nice(1)
print('own')
"
        );
        fs::write(folder.path().join("a.py"), script).unwrap();
        let outcome = sh(folder.path(), "python3 a.py", options(mode)).await;
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
        outside.kill().unwrap();
        outside.wait().unwrap();
        assert_eq!(outcome.text, "own\n[exit status 0]", "{mode:?}");
        let files = limits
            .lines()
            .find(|line| line.starts_with("Max open files"));
        assert!(!files.unwrap().contains(" 7 "), "{limits}");
    }
}

#[tokio::test]
async fn what_is_given_is_reached() {
    for mode in modes() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), Outside::new());
        let mut options = options(mode);
        options.sandbox.network = true;
        fs::create_dir(folder.path().join("other")).unwrap();
        options.sandbox.readable = vec![outside.folder.path().join("secret").into()];
        options.sandbox.writable = vec![folder.path().join("other").into()];
        let inner = tempfile::tempdir_in(folder.path()).unwrap();
        let port = outside.tcp.local_addr().unwrap().port();
        for script in [
            format!("cat {}", outside.path("secret")),
            "touch ../other/new".to_owned(),
            format!(
                "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}))'"
            ),
        ] {
            let outcome = sh(inner.path(), &script, options.clone()).await;
            assert!(outcome.ok, "{mode:?}: {script}: {outcome:?}");
        }
        assert!(folder.path().join("other/new").exists());
        outside.tcp.accept().unwrap();
    }
}

/// Processes that have the text in their command line.
fn processes_with(mark: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| {
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).into_owned())
    });
    lines.filter(|line| line.contains(mark)).collect()
}

async fn nobody_has(mark: &str) -> bool {
    for _ in 0..250 {
        if processes_with(mark).is_empty() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    false
}

/// A time to sleep that nobody else sleeps.
fn mark(test: u32) -> String {
    format!("3{:07}.{test}", std::process::id())
}

/// Every way there is to outlive a command: in its group, out of it, orphaned, in a new session,
/// deaf to requests.
fn stay(mark: &str) -> String {
    format!(
        "trap '' TERM HUP INT; sleep {mark} & setsid sleep {mark} & (setsid sh -c 'sleep {mark} &' &) ; \
         (nohup sh -c 'trap \"\" TERM; setsid setsid sleep {mark}' > /dev/null 2>&1 &); sleep 0.2; \
         echo started;"
    )
}

#[tokio::test]
async fn nothing_outlives_a_command() {
    for mode in modes().into_iter().chain([SandboxMode::Off]) {
        let folder = tempfile::tempdir().unwrap();
        let mark = mark(1);
        let script = stay(&mark);
        let outcome = sh(folder.path(), &script, options(mode)).await;
        assert!(
            outcome.ok
                && outcome
                    .text
                    .starts_with("started\n[exit status 0]\n[it left "),
            "{mode:?}: {outcome:?}"
        );
        assert!(
            nobody_has(&mark).await,
            "{mode:?}: {:?}",
            processes_with(&mark)
        );

        let mut late = options(mode);
        late.timeout = Duration::from_secs(1);
        let outcome = sh(folder.path(), &format!("{script} sleep {mark}"), late).await;
        assert_eq!(
            outcome,
            ToolResult::failure_with_text(
                "started\n[E-TOOL-TIMEOUT: the command was killed after 1 s]"
            )
            .with_code("E-TOOL-TIMEOUT"),
            "{mode:?}"
        );
        assert!(
            nobody_has(&mark).await,
            "{mode:?}: {:?}",
            processes_with(&mark)
        );

        let script = format!("{script} touch running; sleep {mark}");
        let call = sh(folder.path(), &script, options(mode));
        let running = folder.path().join("running");
        tokio::select! {
            outcome = call => panic!("the command ended by itself: {outcome:?}"),
            () = async {
                while !running.exists() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            } => {}
        }
        assert!(
            nobody_has(&mark).await,
            "{mode:?}: {:?}",
            processes_with(&mark)
        );
    }
}

#[tokio::test]
async fn a_private_folder_goes_with_its_command() {
    for mode in modes() {
        let folder = tempfile::tempdir().unwrap();
        let script = "echo x > $TMPDIR/x; mkdir -p $TMPDIR/a/b; echo $TMPDIR; [ $HOME = $TMPDIR ]";
        let outcome = sh(folder.path(), script, options(mode)).await;
        assert!(outcome.ok, "{mode:?}: {outcome:?}");
        let private = outcome.text.lines().next().unwrap();
        assert!(private.starts_with("/tmp/logue-"), "{private}");
        assert!(!Path::new(private).exists(), "{mode:?}: {private}");
    }
}

#[tokio::test]
async fn a_command_has_its_share_and_no_more() {
    for mode in modes() {
        let folder = tempfile::tempdir().unwrap();
        let mark = mark(2);
        let forks = format!("for i in 1 2 3 4 5 6 7 8 9; do setsid sleep {mark} & done; wait");
        let mut few = options(mode);
        few.sandbox.limits.processes = Some(6);
        let outcome = sh(folder.path(), &forks, few).await;
        assert_eq!(
            outcome,
            ToolResult::failure_with_text(
                "[E-TOOL-LIMIT-EXCEEDED: the command was killed because it used too much of its processes]"
            )
            .with_code("E-TOOL-LIMIT-EXCEEDED"),
            "{mode:?}"
        );
        assert!(nobody_has(&mark).await, "{mode:?}");

        // One process is refused what it asks for; several together are killed.
        let mut little = options(mode);
        little.sandbox.limits.memory_bytes = Some(96 << 20);
        let take = |megabytes: u32| {
            format!("python3 -c \"x = b'x' * ({megabytes} << 20); import time; time.sleep(30)\"")
        };
        let outcome = sh(folder.path(), &take(200), little.clone()).await;
        assert!(
            outcome.text.contains("MemoryError"),
            "{mode:?}: {outcome:?}"
        );
        let many = format!("{0} & {0} & {0} & wait", take(48));
        let outcome = sh(folder.path(), &many, little).await;
        assert_eq!(
            outcome,
            ToolResult::failure_with_text(
                "[E-TOOL-LIMIT-EXCEEDED: the command was killed because it used too much of its memory]"
            )
            .with_code("E-TOOL-LIMIT-EXCEEDED"),
            "{mode:?}"
        );

        let mut small = options(mode);
        small.sandbox.limits.file_bytes = Some(1 << 20);
        let script = "exec head -c 5000000 /dev/zero > large";
        let outcome = sh(folder.path(), script, small).await;
        assert_eq!(
            outcome,
            ToolResult::failure("[killed by signal 25, SIGXFSZ: a file grew too large]"),
            "{mode:?}"
        );
        assert_eq!(
            fs::metadata(folder.path().join("large")).unwrap().len(),
            1 << 20
        );
    }
}

#[tokio::test]
async fn used_disk_space_is_limited() {
    for mode in modes() {
        let folder = tempfile::tempdir().unwrap();
        let mut small = options(mode);
        small.sandbox.limits.disk_bytes = Some(16 << 20);
        // An ended process counts, and so does a file without a name.
        let script = "head -c 12M /dev/zero > a; exec 3> b; rm b; \
                      for i in 1 2 3 4 5; do head -c 4M /dev/zero >&3; sleep 0.2; done; echo SURVIVED";
        let outcome = sh(folder.path(), script, small.clone()).await;
        assert_eq!(
            outcome,
            ToolResult::failure_with_text(
                "[E-TOOL-LIMIT-EXCEEDED: the command was killed because it used too much of its disk space]"
            )
            .with_code("E-TOOL-LIMIT-EXCEEDED"),
            "{mode:?}"
        );
        // What is written over or to others takes no space.
        let script = "for i in 1 2 3 4 5; do head -c 8M /dev/zero > c; sleep 0.1; done; \
                      head -c 64M /dev/zero | cat > /dev/null; sleep 0.3; echo SURVIVED";
        let outcome = sh(folder.path(), script, small).await;
        assert!(outcome.text.contains("SURVIVED"), "{mode:?}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_flood_is_cut_and_ends() {
    for mode in modes() {
        let folder = tempfile::tempdir().unwrap();
        let mut options = options(mode);
        options.output_bytes = 100;
        options.timeout = Duration::from_secs(120);
        let outcome = sh(folder.path(), "exec yes", options).await;
        let (output, rest) = outcome.text.split_at(100);
        assert_eq!(output, "y\n".repeat(50));
        assert!(rest.starts_with("[output cut at 100 bytes; "), "{rest}");
        assert!(
            rest.ends_with(
                "[E-TOOL-LIMIT-EXCEEDED: the command was killed because it did not stop writing output]"
            ),
            "{rest}"
        );
    }
    // Reading a flood takes no more memory than reading a trickle.
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.unwrap().trim().trim_end_matches(" kB");
    assert!(peak.parse::<u64>().unwrap() < 200_000, "{peak} kB");
}

#[tokio::test]
async fn deaths_have_names() {
    let folder = tempfile::tempdir().unwrap();
    for mode in modes() {
        for (signal, says) in [
            ("KILL", "[killed by signal 9, SIGKILL]"),
            ("SEGV", "[killed by signal 11, SIGSEGV: a fault of memory]"),
            (
                "ABRT",
                "[killed by signal 6, SIGABRT: it gave up by itself]",
            ),
        ] {
            let script = format!("kill -{signal} $$");
            let outcome = sh(folder.path(), &script, options(mode)).await;
            assert_eq!(outcome, ToolResult::failure(says), "{mode:?}");
        }
        let outcome = sh(
            folder.path(),
            "echo out; echo err >&2; exit 3",
            options(mode),
        )
        .await;
        let says = "[stdout]\nout\n[stderr]\nerr\n[exit status 3]";
        assert_eq!(outcome, ToolResult::failure(says), "{mode:?}");
        // What a command sends to its own group, or to whoever started it, harms nobody else.
        let script = "trap '' TERM; kill -TERM 0; kill -KILL $PPID; echo alive";
        let outcome = sh(folder.path(), script, options(mode)).await;
        if options(mode)
            .sandbox
            .status()
            .enforced
            .contains(&Protection::Signals)
        {
            assert!(outcome.text.contains("alive\n"), "{mode:?}: {outcome:?}");
        }
    }
}

#[tokio::test]
async fn a_killed_launcher_takes_its_command_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let mark = mark(3);
    let script = format!("kill -KILL $PPID; sleep {mark}");
    let outcome = sh(folder.path(), &script, options(SandboxMode::Off)).await;
    assert_eq!(
        outcome.text,
        "[the end of the command is not known: the process that watched the command is gone]"
    );
    assert!(!outcome.ok && nobody_has(&mark).await, "{outcome:?}");
}

#[test]
fn a_launcher_without_an_order_does_nothing() {
    for order in ["", "{}\n", "nonsense", "{\"words\":[]}\n"] {
        let mut launcher = Command::new(env!("CARGO_BIN_EXE_logue-sandbox"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = launcher.stdin.take().unwrap();
        // It may be gone before it has read all of it.
        drop(stdin.write_all(order.as_bytes()));
        drop(stdin);
        let output = launcher.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{order}");
        assert!(
            output.stdout.is_empty() && output.stderr.is_empty(),
            "{order}"
        );
    }
}

#[test]
fn a_sandbox_says_what_it_does_not_do() {
    let none = Sandbox::default();
    assert!(!none.status().confines());
    assert_eq!(
        none.status().to_string(),
        "no sandbox: there is no launcher to confine it; NOT confined: files outside its directories, \
         modes, owners and times of files outside, truncation of files outside, TCP, UDP and other networks, sockets of local services, signals to \
         other processes, kernel keys and shared memory, open descriptors, leftover processes, memory \
         and processes"
    );
    none.check().unwrap();
    let launched = Sandbox::with_launcher(env!("CARGO_BIN_EXE_logue-sandbox"));
    let off = launched.clone().with_mode(SandboxMode::Off);
    assert_eq!(
        off.status().to_string(),
        "no sandbox: it is switched off; confined: open descriptors, leftover processes, memory and \
         processes; NOT confined: files outside its directories, modes, owners and times of files outside, truncation of files outside, TCP, UDP and other \
         networks, sockets of local services, signals to other processes, kernel keys and shared memory"
    );
    let mut required = off;
    required.required = true;
    let why =
        "the command cannot be confined: a sandbox is required, and this tool's is switched off";
    assert_eq!(required.check().unwrap_err().to_string(), why);
    // What is asked for by name is had or refused; what is not is found or done without.
    for (mode, is_there) in [
        (SandboxMode::Landlock, probe().landlock.is_some()),
        (SandboxMode::Bubblewrap, probe().bubblewrap.is_some()),
    ] {
        let asked = launched.clone().with_mode(mode);
        assert_eq!(asked.check().is_ok(), is_there, "{mode:?}");
        assert_eq!(asked.status().confines(), is_there, "{mode:?}");
        assert!(none.clone().with_mode(mode).check().is_err(), "{mode:?}");
    }
    let mut found = launched;
    found.check().unwrap();
    found.required = true;
    let any = probe().landlock.is_some() || probe().bubblewrap.is_some();
    assert_eq!(found.check().is_ok(), any);
}

#[tokio::test]
async fn a_program_that_the_sandbox_cannot_read_is_named() {
    if !options(SandboxMode::Auto).sandbox.status().confines() {
        return;
    }
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let program = elsewhere.path().join("mine");
    fs::write(&program, "#!/bin/sh\necho mine\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
    let mut options = options(SandboxMode::Auto);
    let path = format!("/usr/bin:/bin:{}", elsewhere.path().display());
    options.environment = vec![("PATH".into(), path.into())];
    let roots = Roots::new([folder.path().to_owned()]).unwrap();
    let tool = |options| ShellTool::new("t", "mine", None, &roots, options).unwrap();
    let outcome = call(&tool(options.clone()), json!({"arguments": []})).await;
    assert_eq!(
        outcome.text,
        format!(
            "[E-SANDBOX-UNAVAILABLE: the command was not run: {} is outside of what the sandbox can read; name \
             its directory under `readable` in `[tools]` of your own configuration]",
            program.display()
        )
    );
    options.sandbox.readable = vec![elsewhere.path().to_owned().into()];
    let outcome = call(&tool(options), json!({"arguments": []})).await;
    assert_eq!(outcome, ToolResult::success("mine\n[exit status 0]"));
}

async fn python(folder: &Path, arguments: &str, options: ShellOptions) -> ToolResult {
    let roots = Roots::new([folder.to_owned()]).unwrap();
    let arguments = Arguments::from_text(arguments);
    let call = ToolInvocation::new("c", &arguments);
    Python::new(&roots, options).call(call).await
}

#[tokio::test]
async fn python_runs_in_a_folder_of_its_own() {
    for mode in modes() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("data.csv"), "1\n2\n").unwrap();
        let data = folder.path().join("data.csv").display().to_string();
        let own = format!(
            "open('own', 'w').write('x'); import os; print(os.listdir('.'), sum(map(int, open({data:?}))))"
        );
        for (arguments, says) in [
            (
                json!({"code": "print(6 * 7)"}).to_string(),
                "42\n[exit status 0]",
            ),
            ("print('raw')\n".to_owned(), "raw\n[exit status 0]"),
            (
                json!({"code": own}).to_string(),
                "['own'] 3\n[exit status 0]",
            ),
            (
                json!({"code": "import sys; sys.exit('no')"}).to_string(),
                "[stderr]\nno\n[exit status 1]",
            ),
            (
                json!({"code": 1}).to_string(),
                "E-CALL-SCHEMA: code: is required, a string",
            ),
            (
                json!({"text": "1"}).to_string(),
                "E-CALL-SCHEMA: `text` is not a parameter of this tool; the only one is `code`",
            ),
        ] {
            let outcome = python(folder.path(), &arguments, options(mode)).await;
            assert_eq!(outcome.text, says, "{mode:?}: {arguments}");
        }
        let mut options = options(mode);
        let enforced = options.sandbox.status().enforced;
        for (guard, code, says) in [
            (Protection::Files, format!("open({data:?}, 'a')"), "[Errno "),
            (
                Protection::Tcp,
                "import socket; socket.create_connection(('127.0.0.1', 9))".to_owned(),
                "Error",
            ),
            (
                Protection::Limits,
                "x = b'x' * (2 << 30)".to_owned(),
                "MemoryError",
            ),
        ] {
            if enforced.contains(&guard) {
                let outcome = python(folder.path(), &code, options.clone()).await;
                assert!(
                    !outcome.ok && outcome.text.contains(says),
                    "{mode:?}: {outcome:?}"
                );
            }
        }
        options.timeout = Duration::from_secs(1);
        let outcome = python(folder.path(), "while True: pass", options).await;
        let says = "[E-TOOL-TIMEOUT: the command was killed after 1 s]";
        assert_eq!(
            outcome,
            ToolResult::failure_with_text(says).with_code("E-TOOL-TIMEOUT"),
            "{mode:?}"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let outcome = python(folder.path(), "print(1)", ShellOptions::default()).await;
    assert!(outcome.text.contains("there is no launcher"), "{outcome:?}");
}
