//! SQLite in a strictly confined process: `farcall bind sqlite3.h -l sqlite3 --hints sqlite3.toml --rust sqlite3.rs`.

#[rustfmt::skip]
#[path = "bindings/sqlite3.rs"]
mod sqlite3;

use farcall::bind::{Handle, Options};
use sqlite3::Sqlite3;

fn main() -> farcall::Result<()> {
    let sqlite = Sqlite3::start(Options::new("sqlite").strict())?;
    let (mut database, mut error) = (Handle::null(), None);
    sqlite.sqlite3_open(c":memory:", &mut database)?;
    let script =
        c"create table t (x, y); insert into t values (1, 'one'), (2, null); select * from t;";
    sqlite.sqlite3_exec(
        &database,
        script,
        Some(&mut |_, values, names| {
            println!("{names:?} {values:?}");
            0
        }),
        &mut error,
    )?;
    sqlite.sqlite3_close(&database)?;
    Ok(())
}
