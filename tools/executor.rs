//! The executor as a program of its own: what a controller starts when it is found beside the controller's program.

fn main() {
    farcall::executor::main();
}
