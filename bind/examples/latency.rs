//! The cost of a binding: zlib, libpng and SQLite in this process, and strictly confined in another, in turns.
//!
//! `cargo run --release -p farcall-bind --example latency`. The figures are in `bench/results/bind.md`.
#![allow(unsafe_code, reason = "calls the libraries in this process")]

#[rustfmt::skip]
#[path = "bindings/png.rs"]
mod png;
#[rustfmt::skip]
#[path = "bindings/sqlite3.rs"]
mod sqlite3;
#[rustfmt::skip]
#[path = "bindings/zlib.rs"]
mod zlib;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::hint::black_box;
use std::time::{Duration, Instant};

use farcall::ExecutorAddr;
use farcall::bind::{Handle, Options};
use png::{PNG_FORMAT_RGBA, PNG_IMAGE_VERSION, Png, png_image};
use sqlite3::Sqlite3;
use zlib::Zlib;

const BLOCK_BYTES: usize = 64 << 10;
const SIDE: u32 = 1024;
const TURNS: usize = 9;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Both processes keep their CPUs, where there are two.
    run_on(1);
    let zlib = Zlib::start(Options::new("zlib").strict())?;
    let png = Png::start(Options::new("png").strict())?;
    let sqlite = Sqlite3::start(Options::new("sqlite").strict())?;
    let _ = black_box((
        zlib.crc32(0, b"")?,
        png.sandbox().executor().process()?,
        sqlite.sqlite3_column_count(&Handle::null())?,
    ));
    run_on(0);
    blocks(&zlib)?;
    pictures(&png)?;
    queries(&sqlite)
}

/// Inflates blocks of 64 KiB of text.
fn blocks(zlib: &Zlib) -> Result<(), Box<dyn std::error::Error>> {
    type Uncompress = unsafe extern "C" fn(*mut u8, *mut u64, *const u8, u64) -> c_int;
    let uncompress: Uncompress = function(c"libz.so.1", c"uncompress")?;
    let text = words(BLOCK_BYTES);
    let mut small = vec![0; BLOCK_BYTES];
    let length = zlib.compress(&mut small, &text)?.1.at_most(BLOCK_BYTES)?;
    small.truncate(length);
    let (mut here, mut there) = (vec![0; BLOCK_BYTES], vec![0; BLOCK_BYTES]);
    let figures = in_turns(
        200,
        || {
            let mut length = here.len() as u64;
            // SAFETY: both slices have the lengths that are passed.
            let status = unsafe {
                uncompress(here.as_mut_ptr(), &raw mut length, small.as_ptr(), small.len() as u64)
            };
            assert_eq!(status, 0);
            Ok(())
        },
        || {
            assert_eq!(zlib.uncompress(&mut there, &small)?.0, 0);
            Ok(())
        },
    )?;
    assert!(here == text && there == text, "the blocks are as before");
    figures.print("zlib, 64 KiB inflated");
    Ok(())
}

/// Decodes a picture of a megapixel.
fn pictures(png: &Png) -> Result<(), Box<dyn std::error::Error>> {
    type Write = unsafe extern "C" fn(
        *mut u8,
        *mut c_void,
        *mut u64,
        c_int,
        *const c_void,
        i32,
        *const c_void,
    ) -> c_int;
    type Begin = unsafe extern "C" fn(*mut u8, *const c_void, u64) -> c_int;
    type Finish =
        unsafe extern "C" fn(*mut u8, *const c_void, *mut c_void, i32, *mut c_void) -> c_int;
    let library = c"libpng16.so.16";
    let write: Write = function(library, c"png_image_write_to_memory")?;
    let begin: Begin = function(library, c"png_image_begin_read_from_memory")?;
    let finish: Finish = function(library, c"png_image_finish_read")?;
    let pixels = gradient();
    let image = png_image {
        version: PNG_IMAGE_VERSION.cast_unsigned(),
        width: SIDE,
        height: SIDE,
        format: PNG_FORMAT_RGBA,
        ..png_image::default()
    };
    let bytes = |image: &png_image| {
        let mut bytes = vec![0; 256];
        farcall::bind::Structure::write(image, &mut bytes);
        bytes
    };
    let mut file = vec![0; pixels.len() + 4096];
    let mut length = file.len() as u64;
    // SAFETY: the image has the size of the pixels, and the file the length that is passed.
    let status = unsafe {
        write(
            bytes(&image).as_mut_ptr(),
            file.as_mut_ptr().cast(),
            &raw mut length,
            0,
            pixels.as_ptr().cast(),
            0,
            std::ptr::null(),
        )
    };
    assert_ne!(status, 0);
    file.truncate(usize::try_from(length)?);
    let (mut here, mut there) = (vec![0; pixels.len()], vec![0; pixels.len()]);
    let figures = in_turns(
        4,
        || {
            let mut head = bytes(&png_image {
                version: PNG_IMAGE_VERSION.cast_unsigned(),
                ..png_image::default()
            });
            let (image, bytes) = (head.as_mut_ptr(), file.len() as u64);
            // SAFETY: the file has that length, and lives until the picture is finished.
            let status = unsafe { begin(image, file.as_ptr().cast(), bytes) };
            assert_ne!(status, 0);
            let read: png_image = farcall::bind::Structure::read(&head);
            farcall::bind::Structure::write(
                &png_image { format: PNG_FORMAT_RGBA, ..read },
                &mut head,
            );
            let (image, none) = (head.as_mut_ptr(), std::ptr::null_mut());
            // SAFETY: the buffer has four bytes for each pixel.
            let status = unsafe { finish(image, none, here.as_mut_ptr().cast(), 0, none) };
            assert_ne!(status, 0);
            Ok(())
        },
        || {
            let sandbox = png.sandbox();
            let memory = sandbox.memory_of(&file)?;
            let image: Handle<png_image> = sandbox.place(&png_image {
                version: PNG_IMAGE_VERSION.cast_unsigned(),
                ..png_image::default()
            })?;
            assert_ne!(
                png.png_image_begin_read_from_memory(&image, memory.address(), file.len() as u64)?,
                0
            );
            sandbox.set(&image, &png_image { format: PNG_FORMAT_RGBA, ..sandbox.get(&image)? })?;
            let decoded = sandbox.memory(there.len())?;
            assert_ne!(
                png.png_image_finish_read(&image, None, decoded.address(), 0, ExecutorAddr::NULL)?,
                0
            );
            decoded.read(0, &mut there)
        },
    )?;
    assert!(here == pixels && there == pixels, "the pictures are as before");
    figures.print("libpng, 1 megapixel decoded");
    Ok(())
}

/// Queries a row by its key, with a callback.
fn queries(sqlite: &Sqlite3) -> Result<(), Box<dyn std::error::Error>> {
    type Open = unsafe extern "C" fn(*const c_char, *mut *mut c_void) -> c_int;
    type Row =
        unsafe extern "C" fn(*mut c_void, c_int, *mut *mut c_char, *mut *mut c_char) -> c_int;
    type Exec = unsafe extern "C" fn(
        *mut c_void,
        *const c_char,
        Option<Row>,
        *mut c_void,
        *mut *mut c_char,
    ) -> c_int;
    let open: Open = function(c"libsqlite3.so.0", c"sqlite3_open")?;
    let exec: Exec = function(c"libsqlite3.so.0", c"sqlite3_exec")?;
    let fill = CString::new(
        "create table t (id integer primary key, name text); \
         with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000) insert into t select i, 'name ' || i from n;",
    )?;
    let mut database = std::ptr::null_mut();
    // SAFETY: the name is a string, and the library stores its object there.
    assert_eq!(unsafe { open(c":memory:".as_ptr(), &raw mut database) }, 0);
    let none = std::ptr::null_mut();
    // SAFETY: the database was just opened.
    let status = unsafe { exec(database, fill.as_ptr(), None, none, none.cast()) };
    assert_eq!(status, 0);
    let (mut there, mut error) = (Handle::null(), None);
    sqlite.sqlite3_open(c":memory:", &mut there)?;
    assert_eq!(sqlite.sqlite3_exec(&there, &*fill, None, &mut error)?, 0);
    let text = |turn: u64| {
        CString::new(format!("select id, name from t where id = {}", turn % 1000 + 1))
            .unwrap_or_default()
    };
    let (mut first, mut second, mut seen, mut seen_there) = (0, 0, 0_u64, 0_u64);
    let figures = in_turns(
        100_000 / TURNS,
        || {
            first += 1;
            // SAFETY: the database is open, and `count` gets the address of `seen`.
            let status = unsafe {
                exec(
                    database,
                    text(first).as_ptr(),
                    Some(count),
                    (&raw mut seen).cast(),
                    std::ptr::null_mut(),
                )
            };
            assert_eq!(status, 0);
            Ok(())
        },
        || {
            second += 1;
            let mut row = |_: i32, values: &[Option<CString>], _: &[Option<CString>]| {
                seen_there +=
                    values.iter().flatten().map(|value| value.as_bytes().len() as u64).sum::<u64>();
                0
            };
            assert_eq!(sqlite.sqlite3_exec(&there, &*text(second), Some(&mut row), &mut error)?, 0);
            Ok(())
        },
    )?;
    assert_eq!(seen, seen_there);
    figures.print("SQLite, a row by its key");
    Ok(())
}

/// Adds the letters of a row to the number behind `data`.
unsafe extern "C" fn count(
    data: *mut c_void,
    columns: c_int,
    values: *mut *mut c_char,
    _: *mut *mut c_char,
) -> c_int {
    for at in 0..usize::try_from(columns).unwrap_or(0) {
        // SAFETY: a row has that many values.
        let place = unsafe { values.add(at) };
        // SAFETY: the library has stored a pointer there.
        let value = unsafe { *place };
        // SAFETY: each value is a string here.
        let text = unsafe { CStr::from_ptr(value) };
        // SAFETY: the caller has passed the address of its number, which nothing else uses meanwhile.
        unsafe { *data.cast::<u64>() += text.to_bytes().len() as u64 };
    }
    0
}

/// Times of both ways, in nanoseconds.
struct Figures {
    here: Vec<f64>,
    there: Vec<f64>,
}

impl Figures {
    fn print(mut self, name: &str) {
        let quantile = |times: &mut Vec<f64>, part: f64| {
            times.sort_unstable_by(f64::total_cmp);
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a place in the list"
            )]
            let at = (times.len() as f64 * part) as usize;
            times[at.min(times.len() - 1)]
        };
        let here = [0.5, 0.99].map(|part| quantile(&mut self.here, part));
        let there = [0.5, 0.99].map(|part| quantile(&mut self.there, part));
        println!(
            "{name}: here p50 {:.0} ns, p99 {:.0}; bound p50 {:.0}, p99 {:.0}; ratio {:.3}",
            here[0],
            here[1],
            there[0],
            there[1],
            there[0] / here[0]
        );
    }
}

type Step<'a> = &'a mut dyn FnMut() -> farcall::Result<()>;

/// Runs both ways in turns, each so often in a turn.
fn in_turns(
    times: usize,
    mut here: impl FnMut() -> farcall::Result<()>,
    mut there: impl FnMut() -> farcall::Result<()>,
) -> farcall::Result<Figures> {
    let mut figures = Figures { here: Vec::new(), there: Vec::new() };
    let measure = |step: Step<'_>, out: &mut Vec<f64>| {
        for _ in 0..times {
            let start = Instant::now();
            step()?;
            out.push(nanoseconds(start.elapsed()));
        }
        Ok::<(), farcall::Error>(())
    };
    for turn in 0..TURNS {
        if turn % 2 == 0 {
            measure(&mut here, &mut figures.here)?;
            measure(&mut there, &mut figures.there)?;
        } else {
            measure(&mut there, &mut figures.there)?;
            measure(&mut here, &mut figures.here)?;
        }
    }
    Ok(figures)
}

fn nanoseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

/// A block of a text that each Debian has, or of this program where it is missing.
fn words(bytes: usize) -> Vec<u8> {
    let text = std::fs::read("/usr/share/common-licenses/GPL-3")
        .unwrap_or_else(|_| include_bytes!("latency.rs").to_vec());
    text.into_iter().cycle().take(bytes).collect()
}

/// A picture whose colors change slowly, with some noise.
fn gradient() -> Vec<u8> {
    let mut random = 7_u32;
    let mut pixels = Vec::new();
    for y in 0..SIDE {
        for x in 0..SIDE {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let noise = random >> 30;
            pixels.extend(
                [x / 4 + noise, y / 4, (x + y) / 8, 255]
                    .map(|part| u8::try_from(part.min(255)).unwrap_or(255)),
            );
        }
    }
    pixels
}

/// A function of a library that is opened in this process.
fn function<T: Copy>(library: &CStr, name: &CStr) -> Result<T, Box<dyn std::error::Error>> {
    // SAFETY: the library's constructors may run in any program.
    let opened = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_NOW) };
    if opened.is_null() {
        return Err(format!("{library:?} cannot be opened").into());
    }
    // SAFETY: the library stays open.
    let address = unsafe { libc::dlsym(opened, name.as_ptr()) };
    if address.is_null() {
        return Err(format!("{library:?} has no {name:?}").into());
    }
    assert_eq!(size_of::<T>(), size_of::<*mut c_void>());
    // SAFETY: the caller names the function's own type, a pointer of the same size.
    Ok(unsafe { std::mem::transmute_copy(&address) })
}

/// Runs this thread, and processes that it starts, on the CPU of this number, if there is one.
fn run_on(cpu: usize) {
    // SAFETY: a set of CPUs may be all zero.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the number is one of the set's.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the set has its own size. Without that CPU the call changes nothing.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) };
}
