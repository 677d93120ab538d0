//! The terminal's alternate screen while the view is open; restored however the view ends.

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use std::io::{self, IsTerminal, Stdout, stdout};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the alternate screen is shown.
static IS_SHOWN: AtomicBool = AtomicBool::new(false);

/// The alternate screen; dropping it restores the main screen.
pub struct Screen(Terminal<CrosstermBackend<Stdout>>);

impl Screen {
    /// Shows the alternate screen.
    ///
    /// # Errors
    /// If the terminal cannot show it.
    pub fn open() -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let previous = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                leave();
                previous(panic);
            }));
        });
        enable_raw_mode()?;
        IS_SHOWN.store(true, Ordering::SeqCst);
        let opened = execute!(stdout(), EnterAlternateScreen, Clear(ClearType::All))
            .and_then(|()| Terminal::new(CrosstermBackend::new(stdout())));
        match opened {
            Ok(terminal) => Ok(Self(terminal)),
            Err(error) => {
                leave();
                Err(error)
            }
        }
    }

    /// Draws a frame.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn draw(&mut self, content: impl FnOnce(&mut ratatui::Frame)) -> io::Result<()> {
        self.0.draw(content).map(|_| ())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

/// Shows the main screen again. If the terminal is gone, there is nothing to do.
fn leave() {
    if IS_SHOWN.swap(false, Ordering::SeqCst) {
        let _ = disable_raw_mode();
        let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    }
}

/// Whether a terminal that can show the view is attached, and this process may use it.
pub fn is_available() -> bool {
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    stdout().is_terminal() && io::stdin().is_terminal() && !dumb && in_foreground()
}

/// Whether this process may read from its terminal: a shell's `&` and `bg` take that away.
#[cfg(unix)]
pub fn in_foreground() -> bool {
    let group = rustix::termios::tcgetpgrp(stdout());
    group.is_ok_and(|group| group == rustix::process::getpgrp())
}

/// Whether this process may read from its terminal.
#[cfg(not(unix))]
pub fn in_foreground() -> bool {
    true
}

/// Stops the process until the shell continues it, as Ctrl-Z does.
#[cfg(unix)]
pub fn suspend() {
    use signal_hook::consts::SIGTSTP;
    // If the system refuses, the run simply continues.
    let _ = signal_hook::low_level::emulate_default_handler(SIGTSTP);
}

/// Suspending is not available on this platform.
#[cfg(not(unix))]
pub fn suspend() {}
