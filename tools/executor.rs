//! The executor as a program of its own.

fn main() {
    eprintln!("farcall-executor: started by a controller only");
    std::process::exit(125);
}
