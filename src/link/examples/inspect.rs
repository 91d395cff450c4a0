//! Says what objects offer and need, and how large they are once linked: `inspect FILE...`.

use std::error::Error;

use farcall_link::{ExecutorAddr, LinkGraph, ObjectFile, Prot};

fn main() -> Result<(), Box<dyn Error>> {
    let mut graph = LinkGraph::new();
    for name in std::env::args().skip(1) {
        let bytes = std::fs::read(&name)?;
        graph.add_object(&ObjectFile::parse(name, bytes)?)?;
    }
    let exports: Vec<_> =
        graph.exports().map(|one| (one.name.to_owned(), one.callable, one.weak)).collect();
    for missing in graph.undefined() {
        let strength = if missing.weak { ", weak" } else { "" };
        println!("needs {} for {}{strength}", missing.name, missing.used_by);
        // Any address will do: the sizes are asked for, not the image.
        graph.define_external(&missing.name, ExecutorAddr::NULL);
    }
    let layout = graph.layout()?;
    let objects = layout.objects([ExecutorAddr::NULL; 3]);
    for (name, callable, weak) in exports {
        let strength = if weak { ", weak" } else { "" };
        // Debug information tells a function's type.
        match objects.iter().find_map(|object| object.prototype(&name)) {
            Some(prototype) => println!("defines {prototype}{strength}"),
            None if callable => println!("defines the function {name}{strength}"),
            None => println!("defines the variable {name}{strength}"),
        }
    }
    for (prot, bytes) in Prot::ALL.into_iter().zip(layout.bytes()) {
        println!("{prot:?}: {bytes} bytes");
    }
    Ok(())
}
