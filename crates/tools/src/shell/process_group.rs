//! Programs without a launcher, in a process group that is killed together.
//!
//! Processes that leave the group are not killed.

use std::process::{ExitStatus, Stdio};

use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessGroup};
use tokio::io::AsyncWriteExt as _;

use super::program::{DRAIN, ExitReason, Pipes, Program, Streams, piped};

/// `ESRCH`: the group has no process left.
const NO_SUCH_PROCESS: i32 = 3;

pub(super) async fn run(program: &Program<'_>, streams: &mut Streams) -> ExitReason {
    let Some((name, arguments)) = program.words.split_first() else {
        return ExitReason::NotStarted("no command is named".to_owned());
    };
    let Some(folder) = &program.folder else {
        return ExitReason::Refused("there is no launcher to give it a private folder".to_owned());
    };
    let mut command = CommandWrap::with_new(name, |command| {
        command
            .args(arguments)
            .current_dir(folder)
            .env_clear()
            .envs(program.options.environment.iter().cloned());
        let stdin = if program.input.is_some() {
            Stdio::piped()
        } else {
            Stdio::null()
        };
        piped(command, stdin);
    });
    command.wrap(ProcessGroup::leader());
    let mut group = match command.spawn() {
        Ok(child) => Group(child),
        Err(error) => {
            let name = name.display();
            return ExitReason::NotStarted(format!("`{name}` could not be started: {error}"));
        }
    };
    if let (Some(mut stdin), Some(input)) = (group.0.stdin().take(), program.input.clone()) {
        // A program that does not read its input must not block the run.
        tokio::spawn(async move { stdin.write_all(input.as_bytes()).await });
    }
    let mut pipes = Pipes::new(group.0.stdout().take(), group.0.stderr().take());
    let deadline = tokio::time::sleep(program.options.timeout);
    tokio::pin!(deadline);
    let end = loop {
        tokio::select! {
            ended = group.0.inner_mut().wait() => break match ended {
                Ok(status) => ended_by(status),
                Err(error) => ExitReason::Lost(error.to_string()),
            },
            () = &mut deadline => break ExitReason::TimedOut,
            () = pipes.read(streams) => if streams.is_flooded() {
                break ExitReason::Flooded;
            }
        }
    };
    // Kills processes that the program left running.
    let killed = group.end().await;
    pipes.drain(streams).await;
    match killed {
        Ok(()) => end,
        Err(error) => ExitReason::Lost(format!("its process group could not be ended: {error}")),
    }
}

/// A started program and its process group.
struct Group(Box<dyn ChildWrapper>);

impl Group {
    /// Kills the remaining processes of the group. A group without processes is not an error.
    async fn end(&mut self) -> std::io::Result<()> {
        match self.0.start_kill() {
            Ok(()) => {}
            Err(error) if error.raw_os_error() == Some(NO_SUCH_PROCESS) => return Ok(()),
            Err(error) => return Err(error),
        }
        drop(tokio::time::timeout(DRAIN, self.0.wait()).await);
        Ok(())
    }
}

impl Drop for Group {
    /// Kills the group when the call is cancelled. After [`Group::end`] the attempt fails
    /// harmlessly.
    fn drop(&mut self) {
        drop(self.0.start_kill());
    }
}

fn ended_by(status: ExitStatus) -> ExitReason {
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt as _;
        if let Some(signal) = status.signal() {
            return ExitReason::Signalled(signal);
        }
    }
    match status.code() {
        Some(code) => ExitReason::Exited(code),
        None => ExitReason::Lost("its exit status is unknown".to_owned()),
    }
}
