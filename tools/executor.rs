//! The executor as a program of its own: what a controller starts when it is found beside the controller's program.

fn main() {
    farcall::executor::serve_if_asked();
    eprintln!("farcall-executor: this program is started by a farcall controller, not by hand");
    std::process::exit(125);
}
