//! Commands that reach for other processes, or stay.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::attack::{Arena, Attack, Failure, Outcome, control, promise, skip};
use crate::model::escape::{escape, owned, turn};
use crate::scene::{SECRET, Scene, model, wait_until, words};

const PROCESSES: &str = "a command reaches no process outside";
const LEFTOVERS: &str = "no process of a command stays";

pub(crate) const ATTACKS: &[Attack] = &[
    Attack::model("sandbox-kill", PROCESSES, kill_outside).confined(),
    Attack::model("sandbox-trace", PROCESSES, trace_outside).confined(),
    Attack::model("sandbox-environment", PROCESSES, environment_outside).confined(),
    Attack::model(
        "sandbox-descriptors",
        "a command inherits no open file",
        descriptors,
    )
    .confined(),
    Attack::model("sandbox-forks", "the number of processes is limited", forks).confined(),
    Attack::model(
        "sandbox-shared-memory",
        "a command sees no shared memory",
        shared_memory,
    )
    .confined(),
    Attack::model("sandbox-keyring", "a command reads no keyring", keyring).confined(),
    Attack::model("leftover-daemon", LEFTOVERS, daemon).confined(),
    Attack::model("leftover-after-kill", LEFTOVERS, after_kill).confined(),
];

/// Returns a duration for `sleep` that no other process has.
pub(super) fn mark() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::SeqCst);
    format!("5{:07}.{number}", std::process::id())
}

/// Returns the number of running processes with a mark in their arguments.
fn processes_with(mark: &str) -> usize {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return 0;
    };
    let lines = entries
        .flatten()
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let is_marked = |line: &Vec<u8>| {
        line.split(|byte| *byte == 0)
            .any(|word| word == mark.as_bytes())
    };
    lines.filter(is_marked).count()
}

/// A process outside every sandbox, ended when it is dropped.
pub(super) struct Victim(pub(super) Child);

impl Victim {
    pub(super) fn start() -> Result<Self, Failure> {
        let child = Command::new("sleep")
            .arg(mark())
            .env("TOKEN", SECRET)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self(child))
    }

    pub(super) fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Lets the command act on a process of the user.
pub(super) fn acts(
    arena: &Arena,
    action: &str,
    has_effect: impl Fn(&mut Victim) -> bool,
) -> Outcome {
    let victim = std::cell::RefCell::new(None);
    escape(
        arena,
        |_| {
            let started = Victim::start()?;
            let call = owned([action, &started.pid()]);
            *victim.borrow_mut() = Some(started);
            Ok(call)
        },
        |_| victim.borrow_mut().as_mut().is_some_and(&has_effect),
    )
}

fn kill_outside(arena: &Arena) -> Outcome {
    acts(arena, "kill", |victim| {
        matches!(victim.0.try_wait(), Ok(Some(_)))
    })
}

fn trace_outside(arena: &Arena) -> Outcome {
    let victims = std::cell::RefCell::new(Vec::new());
    escape(
        arena,
        |_| {
            let victim = Victim::start()?;
            let call = owned(["trace", &victim.pid()]);
            victims.borrow_mut().push(victim);
            Ok(call)
        },
        |turn| turn.scene.work().join("traced").exists(),
    )
}

fn environment_outside(arena: &Arena) -> Outcome {
    let victim = Victim::start()?;
    escape(
        arena,
        |_| Ok(owned(["environment", &victim.pid()])),
        |turn| turn.traffic().contains(SECRET),
    )
}

fn descriptors(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    scene.file(
        "p.md",
        "<config model=\"m\"/>\n<tool name=\"t\" command=\"sh fds.sh\"/>\n",
    )?;
    scene.file(
        "fds.sh",
        "echo began\ncat <&9\necho evil >&8\nls /proc/self/fd\n",
    )?;
    let outside = scene.outside();
    let open = format!("9<{0}/id_rsa 8>>{0}/log", outside.display());
    let server = model(&[("t", words([]))])?;
    let script = format!("exec \"$LOGUE\" run --no-save p.md go {open}");
    scene
        .shell(&script)
        .with_server(&server)
        .with_trust()
        .run()?;
    let traffic = crate::scene::traffic(&server);
    control(traffic.contains("began"), "the command did not run")?;
    promise(!traffic.contains(SECRET), "an inherited file was read")?;
    promise(
        std::fs::read(outside.join("log"))?.is_empty(),
        "an inherited file was written",
    )?;
    let ran = scene.shell(&format!("exec sh fds.sh {open}")).run()?;
    control(
        ran.text().contains(SECRET),
        "a program that inherits reads nothing",
    )
}

fn forks(arena: &Arena) -> Outcome {
    let scene = Scene::new(arena)?;
    scene.configure("max_processes = 16\n", "")?;
    let mark = mark();
    let (peak, ends) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let watch = std::thread::spawn({
        let (peak, ends, mark) = (Arc::clone(&peak), Arc::clone(&ends), mark.clone());
        move || {
            while !ends.load(Ordering::SeqCst) {
                peak.fetch_max(processes_with(&mark), Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    });
    let turn = turn(scene, &[owned(["forks", "1500", &mark])]);
    ends.store(true, Ordering::SeqCst);
    drop(watch.join());
    let (turn, peak) = (turn?, peak.load(Ordering::SeqCst));
    control(
        peak > 0,
        format!("no process was started: {}", turn.traffic()),
    )?;
    // Processes are counted periodically, so a fast command exceeds the limit for a moment.
    promise(
        peak <= 512,
        format!("{peak} processes at once; the limit is 16"),
    )?;
    promise(
        wait_until(|| processes_with(&mark) == 0),
        "some of them stay",
    )
}

fn has(program: &str) -> bool {
    std::path::Path::new("/usr/bin").join(program).exists()
}

fn shared_memory(arena: &Arena) -> Outcome {
    if !has("ipcmk") || !has("ipcrm") {
        return skip("needs ipcmk and ipcrm");
    }
    let segment = || -> Result<String, Failure> {
        let made = Command::new("ipcmk").args(["-M", "4096"]).output()?;
        let text = String::from_utf8_lossy(&made.stdout).into_owned();
        let id = text
            .split_whitespace()
            .last()
            .unwrap_or_default()
            .to_owned();
        control(id.parse::<u32>().is_ok(), "no segment of shared memory")?;
        Ok(id)
    };
    let exists = |id: &str| {
        let table = std::fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
        let mut lines = table.lines();
        lines.any(|line| line.split_whitespace().nth(1) == Some(id))
    };
    for is_confined in [false, true] {
        let scene = if is_confined {
            Scene::new(arena)?
        } else {
            let open = Arena {
                confinement: None,
                ..arena.clone()
            };
            let scene = Scene::new(&open)?;
            scene.configure("sandbox = \"off\"\n", "")?;
            scene
        };
        scene.file(
            "p.md",
            "<config model=\"m\"/>\n<tool name=\"t\" command=\"ipcrm -m\"/>\n",
        )?;
        let id = segment()?;
        let server = model(&[("t", words([&id]))])?;
        let run = scene.logue(["run", "--no-save", "p.md", "go"]);
        run.with_server(&server).with_trust().run()?;
        let is_removed = !exists(&id);
        drop(Command::new("ipcrm").args(["-m", &id]).output());
        control(
            is_confined || is_removed,
            "it is not removed without a sandbox",
        )?;
        promise(!is_confined || !is_removed, "the segment was removed")?;
    }
    Ok(())
}

/// Reads the key `attack` of the user's keyring; `add` adds it first.
const KEYRING: &str = "my ($a, $k) = (`uname -m` =~ /x86_64/) ? (248, 250) : (217, 219);\n\
    my ($t, $d, $s) = ('user', $ARGV[1], $ARGV[2] // '');\n\
    if ($ARGV[0] eq 'add') { syscall($a, $t, $d, $s, length($s), -4) > 0 or die \"add: $!\\n\"; }\n\
    my $id = syscall($k, 10, -4, $t, $d, 0); die \"search: $!\\n\" if $id < 0;\n\
    my $b = \"\\0\" x 64; my $n = syscall($k, 11, $id, $b, 64); die \"read: $!\\n\" if $n < 0;\n\
    print substr($b, 0, $n), \"\\n\";\n\
    if ($ARGV[0] eq 'add') { }\n";

fn keyring(arena: &Arena) -> Outcome {
    let machines = ["x86_64", "aarch64"];
    if !has("perl") || !machines.contains(&std::env::consts::ARCH) {
        return skip("needs perl, on x86-64 or AArch64");
    }
    let scene = Scene::new(arena)?;
    let script = scene.file("key.pl", KEYRING)?;
    let name = format!("attack-{}-{:?}", std::process::id(), arena.confinement);
    let added = Command::new("perl")
        .arg(&script)
        .args(["add", &name, SECRET])
        .output()?;
    if !String::from_utf8_lossy(&added.stdout).contains(SECRET) {
        return skip("this machine has no keyring for the user");
    }
    scene.file(
        "p.md",
        "<config model=\"m\"/>\n<tool name=\"t\" command=\"perl key.pl read\"/>\n",
    )?;
    let server = model(&[("t", words([&name]))])?;
    let run = scene.logue(["run", "--no-save", "p.md", "go"]);
    run.with_server(&server).with_trust().run()?;
    control(server.received().len() == 2, "the command did not run")?;
    promise(
        !crate::scene::traffic(&server).contains(SECRET),
        "the key was read",
    )
}

fn daemon(arena: &Arena) -> Outcome {
    let mark = mark();
    let scene = Scene::new(arena)?;
    let turn = turn(scene, &[owned(["daemon", &mark])])?;
    control(turn.traffic().contains("done"), "no daemon was started")?;
    promise(
        wait_until(|| processes_with(&mark) == 0),
        "the daemon stays",
    )
}

fn after_kill(arena: &Arena) -> Outcome {
    let mark = mark();
    let scene = Scene::new(arena)?;
    let prompt = format!(
        "<config model=\"m\"/>\n<tool name=\"t\" command=\"sh work.sh {}\"/>\n",
        scene.probe()
    );
    scene.file("p.md", prompt)?;
    scene.file(
        "work.sh",
        format!(
            "trap '' TERM INT HUP\nsetsid sleep {mark} &\n(setsid sleep {mark} &)\nsleep {mark}\n"
        ),
    )?;
    let server = model(&[("t", json!({"arguments": []}))])?;
    let run = scene.logue(["run", "--no-save", "p.md", "go"]);
    let mut running = run.with_server(&server).with_trust().start()?;
    let has_begun = wait_until(|| processes_with(&mark) >= 3);
    control(
        has_begun,
        format!("the command did not begin: {}", running.stderr()?),
    )?;
    let pid =
        i32::try_from(running.child.id()).map_err(|_| Failure::Control("no id".to_owned()))?;
    kill(Pid::from_raw(pid), Signal::SIGKILL).map_err(std::io::Error::from)?;
    running.child.wait()?;
    promise(
        wait_until(|| processes_with(&mark) == 0),
        "its processes stay",
    )
}
