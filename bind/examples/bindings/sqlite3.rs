// @generated
//! `Sqlite3` runs the library's functions in a process of their own. Written by `farcall bind sqlite3.h -l sqlite3 --hints sqlite3.toml`: change the header or the hints, and not this file.
//!
#![allow(warnings, reason = "the names are the header's")]
pub use library::Sqlite3;
mod library {
    use ::farcall::bind::LibrarySource;
    const SOURCES: &[LibrarySource<'_>] = &[LibrarySource::Shared("libsqlite3.so.0")];
    /// The library in a process of its own. Cheap to clone; the last clone ends the process.
    #[derive(Debug, Clone)]
    pub struct Sqlite3 {
        sandbox: ::farcall::bind::Sandbox,
        functions: ::std::sync::Arc<FunctionsOfTheLibrary>,
    }
    #[derive(Debug)]
    struct FunctionsOfTheLibrary {
        function_sqlite3_close: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr) -> i32,
        >,
        function_sqlite3_exec: ::farcall::controller::Function<
            extern "C" fn(
                ::farcall::ExecutorAddr,
                ::farcall::ExecutorAddr,
                ::farcall::ExecutorAddr,
                ::farcall::ExecutorAddr,
                ::farcall::ExecutorAddr,
            ) -> i32,
        >,
        function_sqlite3_open: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr, ::farcall::ExecutorAddr) -> i32,
        >,
        function_sqlite3_errmsg: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr) -> ::farcall::ExecutorAddr,
        >,
        function_sqlite3_prepare_v2: ::farcall::controller::Function<
            extern "C" fn(
                ::farcall::ExecutorAddr,
                ::farcall::ExecutorAddr,
                i32,
                ::farcall::ExecutorAddr,
                ::farcall::ExecutorAddr,
            ) -> i32,
        >,
        function_sqlite3_column_count: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr) -> i32,
        >,
        function_sqlite3_column_name: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr, i32) -> ::farcall::ExecutorAddr,
        >,
        function_sqlite3_column_name16: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr, i32) -> ::farcall::ExecutorAddr,
        >,
        function_sqlite3_column_database_name: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr, i32) -> ::farcall::ExecutorAddr,
        >,
        function_sqlite3_column_database_name16: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr, i32) -> ::farcall::ExecutorAddr,
        >,
        function_sqlite3_column_table_name: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr, i32) -> ::farcall::ExecutorAddr,
        >,
        function_sqlite3_column_table_name16: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr, i32) -> ::farcall::ExecutorAddr,
        >,
        function_sqlite3_column_origin_name: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr, i32) -> ::farcall::ExecutorAddr,
        >,
        function_sqlite3_column_origin_name16: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr, i32) -> ::farcall::ExecutorAddr,
        >,
        function_sqlite3_column_decltype: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr, i32) -> ::farcall::ExecutorAddr,
        >,
        function_sqlite3_column_decltype16: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr, i32) -> ::farcall::ExecutorAddr,
        >,
        function_sqlite3_step: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr) -> i32,
        >,
        function_sqlite3_column_blob: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr, i32) -> ::farcall::ExecutorAddr,
        >,
        function_sqlite3_column_double: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr, i32) -> f64,
        >,
        function_sqlite3_column_int: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr, i32) -> i32,
        >,
        function_sqlite3_column_int64: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr, i32) -> i64,
        >,
        function_sqlite3_column_text: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr, i32) -> ::farcall::ExecutorAddr,
        >,
        function_sqlite3_column_text16: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr, i32) -> ::farcall::ExecutorAddr,
        >,
        function_sqlite3_column_value: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr, i32) -> ::farcall::ExecutorAddr,
        >,
        function_sqlite3_column_bytes: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr, i32) -> i32,
        >,
        function_sqlite3_column_bytes16: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr, i32) -> i32,
        >,
        function_sqlite3_column_type: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr, i32) -> i32,
        >,
        function_sqlite3_finalize: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr) -> i32,
        >,
        free_sqlite3_free: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr),
        >,
    }
    impl Sqlite3 {
        /// Starts the process with these rights and limits.
        pub fn start(options: ::farcall::bind::Options) -> ::farcall::Result<Self> {
            Self::start_with(SOURCES, options)
        }
        /// Starts the process with the library from another place.
        pub fn start_with(
            sources: &[LibrarySource<'_>],
            options: ::farcall::bind::Options,
        ) -> ::farcall::Result<Self> {
            let sandbox = ::farcall::bind::Sandbox::start(sources, options)?;
            let functions = ::std::sync::Arc::new(FunctionsOfTheLibrary {
                function_sqlite3_close: sandbox.function("sqlite3_close"),
                function_sqlite3_exec: sandbox.function("sqlite3_exec"),
                function_sqlite3_open: sandbox.function("sqlite3_open"),
                function_sqlite3_errmsg: sandbox.function("sqlite3_errmsg"),
                function_sqlite3_prepare_v2: sandbox.function("sqlite3_prepare_v2"),
                function_sqlite3_column_count: sandbox.function("sqlite3_column_count"),
                function_sqlite3_column_name: sandbox.function("sqlite3_column_name"),
                function_sqlite3_column_name16: sandbox
                    .function("sqlite3_column_name16"),
                function_sqlite3_column_database_name: sandbox
                    .function("sqlite3_column_database_name"),
                function_sqlite3_column_database_name16: sandbox
                    .function("sqlite3_column_database_name16"),
                function_sqlite3_column_table_name: sandbox
                    .function("sqlite3_column_table_name"),
                function_sqlite3_column_table_name16: sandbox
                    .function("sqlite3_column_table_name16"),
                function_sqlite3_column_origin_name: sandbox
                    .function("sqlite3_column_origin_name"),
                function_sqlite3_column_origin_name16: sandbox
                    .function("sqlite3_column_origin_name16"),
                function_sqlite3_column_decltype: sandbox
                    .function("sqlite3_column_decltype"),
                function_sqlite3_column_decltype16: sandbox
                    .function("sqlite3_column_decltype16"),
                function_sqlite3_step: sandbox.function("sqlite3_step"),
                function_sqlite3_column_blob: sandbox.function("sqlite3_column_blob"),
                function_sqlite3_column_double: sandbox
                    .function("sqlite3_column_double"),
                function_sqlite3_column_int: sandbox.function("sqlite3_column_int"),
                function_sqlite3_column_int64: sandbox.function("sqlite3_column_int64"),
                function_sqlite3_column_text: sandbox.function("sqlite3_column_text"),
                function_sqlite3_column_text16: sandbox
                    .function("sqlite3_column_text16"),
                function_sqlite3_column_value: sandbox.function("sqlite3_column_value"),
                function_sqlite3_column_bytes: sandbox.function("sqlite3_column_bytes"),
                function_sqlite3_column_bytes16: sandbox
                    .function("sqlite3_column_bytes16"),
                function_sqlite3_column_type: sandbox.function("sqlite3_column_type"),
                function_sqlite3_finalize: sandbox.function("sqlite3_finalize"),
                free_sqlite3_free: sandbox.function("sqlite3_free"),
            });
            Ok(Self { sandbox, functions })
        }
        /// The process, its memory, and its objects by address.
        pub fn sandbox(&self) -> &::farcall::bind::Sandbox {
            &self.sandbox
        }
        /// `int sqlite3_close(sqlite3 *)`
        pub fn sqlite3_close(
            &self,
            argument_0: &::farcall::bind::Handle<super::sqlite3>,
        ) -> ::farcall::Result<i32> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(argument_0)?;
            let result = call.run(&self.functions.function_sqlite3_close, (lent_0,))?;
            Ok(result)
        }
        /// `int sqlite3_exec(sqlite3 *, const char *sql, int (*callback)(void *, int, char **, char **), void *, char **errmsg)`
        pub fn sqlite3_exec<'a>(
            &self,
            argument_0: &::farcall::bind::Handle<super::sqlite3>,
            sql: impl ::core::convert::Into<Option<&'a ::core::ffi::CStr>>,
            callback: Option<
                &mut dyn FnMut(
                    i32,
                    &[Option<::std::ffi::CString>],
                    &[Option<::std::ffi::CString>],
                ) -> i32,
            >,
            errmsg: &mut Option<::std::ffi::CString>,
        ) -> ::farcall::Result<i32> {
            let sandbox = &self.sandbox;
            let mut callback = callback
                .map(|closure| move |
                    words: ::farcall::bind::Words<'_>,
                | -> ::farcall::Result<u64> {
                    let callback_1 = ::farcall::bind::argument::<i32>(words, 1usize);
                    let [callback_2, callback_3] = sandbox
                        .text_arrays(
                            [
                                ::farcall::bind::argument::<
                                    ::farcall::ExecutorAddr,
                                >(words, 2usize),
                                ::farcall::bind::argument::<
                                    ::farcall::ExecutorAddr,
                                >(words, 3usize),
                            ],
                            ::farcall::bind::argument::<u64>(words, 1usize),
                        )?;
                    Ok(
                        ::farcall::bind::Number::to_word(
                            closure(callback_1, &callback_2, &callback_3),
                        ),
                    )
                });
            let callback = callback
                .as_mut()
                .map(|closure| closure as &mut ::farcall::bind::Callback<'_>);
            ::farcall::bind::lend(
                &self.sandbox,
                callback,
                |lent_3| {
                    let mut call = ::farcall::bind::Call::new(&self.sandbox);
                    let lent_0 = call.handle(argument_0)?;
                    let lent_1 = call.text(sql.into())?;
                    let lent_2 = match lent_3.is_null() {
                        true => ::farcall::ExecutorAddr::NULL,
                        false => {
                            call.callback(
                                &*self
                                    .sandbox
                                    .callback(
                                        "farcall closure (:: farcall :: ExecutorAddr, i32, :: farcall :: ExecutorAddr, :: farcall :: ExecutorAddr) 0 i32",
                                        |identity| move |
                                            argument_0: ::farcall::ExecutorAddr,
                                            argument_1: i32,
                                            argument_2: ::farcall::ExecutorAddr,
                                            argument_3: ::farcall::ExecutorAddr,
                                        | -> ::farcall::Result<i32> {
                                            ::farcall::bind::call_back(
                                                    identity,
                                                    argument_0,
                                                    &[
                                                        ::farcall::bind::Number::to_word(argument_0),
                                                        ::farcall::bind::Number::to_word(argument_1),
                                                        ::farcall::bind::Number::to_word(argument_2),
                                                        ::farcall::bind::Number::to_word(argument_3),
                                                    ],
                                                )
                                                .map(<i32 as ::farcall::bind::Number>::from_word)
                                        },
                                    )?,
                            )?
                        }
                    };
                    let lent_4 = call.structure(&::farcall::ExecutorAddr::NULL)?;
                    let result = call
                        .run(
                            &self.functions.function_sqlite3_exec,
                            (lent_0, lent_1, lent_2, lent_3, lent_4.address()),
                        )?;
                    *errmsg = call
                        .text_freed_by(
                            call.number(lent_4)?,
                            &self.functions.free_sqlite3_free,
                        )?;
                    Ok(result)
                },
            )
        }
        /// `int sqlite3_open(const char *filename, sqlite3 **ppDb)`
        pub fn sqlite3_open<'a>(
            &self,
            filename: impl ::core::convert::Into<Option<&'a ::core::ffi::CStr>>,
            ppDb: &mut ::farcall::bind::Handle<super::sqlite3>,
        ) -> ::farcall::Result<i32> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.text(filename.into())?;
            let lent_1 = call.handle_before(ppDb)?;
            let lent_1 = call.structure(&lent_1)?;
            let result = call
                .run(&self.functions.function_sqlite3_open, (lent_0, lent_1.address()))?;
            *ppDb = call.returned(call.number(lent_1)?);
            Ok(result)
        }
        /// `const char *sqlite3_errmsg(sqlite3 *)`
        pub fn sqlite3_errmsg(
            &self,
            argument_0: &::farcall::bind::Handle<super::sqlite3>,
        ) -> ::farcall::Result<Option<::std::ffi::CString>> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(argument_0)?;
            let result = call.run(&self.functions.function_sqlite3_errmsg, (lent_0,))?;
            let result = call.text_of(result)?;
            Ok(result)
        }
        /// `int sqlite3_prepare_v2(sqlite3 *db, const char *zSql, int nByte, sqlite3_stmt **ppStmt, const char **pzTail)`
        pub fn sqlite3_prepare_v2(
            &self,
            db: &::farcall::bind::Handle<super::sqlite3>,
            zSql: &[u8],
            ppStmt: &mut ::farcall::bind::Handle<super::sqlite3_stmt>,
            pzTail: &mut ::farcall::ExecutorAddr,
        ) -> ::farcall::Result<i32> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(db)?;
            let lent_1 = call.numbers(&*zSql)?;
            let lent_3 = call.handle_before(ppStmt)?;
            let lent_3 = call.structure(&lent_3)?;
            let lent_4 = call.structure(&*pzTail)?;
            let result = call
                .run(
                    &self.functions.function_sqlite3_prepare_v2,
                    (
                        lent_0,
                        lent_1.address(),
                        ::farcall::bind::length::<i32>(zSql.len())?,
                        lent_3.address(),
                        lent_4.address(),
                    ),
                )?;
            *ppStmt = call.returned(call.number(lent_3)?);
            call.fetch(lent_4, std::slice::from_mut(pzTail))?;
            Ok(result)
        }
        /// `int sqlite3_column_count(sqlite3_stmt *pStmt)`
        pub fn sqlite3_column_count(
            &self,
            pStmt: &::farcall::bind::Handle<super::sqlite3_stmt>,
        ) -> ::farcall::Result<i32> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(pStmt)?;
            let result = call
                .run(&self.functions.function_sqlite3_column_count, (lent_0,))?;
            Ok(result)
        }
        /// `const char *sqlite3_column_name(sqlite3_stmt *, int N)`
        pub fn sqlite3_column_name(
            &self,
            argument_0: &::farcall::bind::Handle<super::sqlite3_stmt>,
            N: i32,
        ) -> ::farcall::Result<Option<::std::ffi::CString>> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(argument_0)?;
            let result = call
                .run(&self.functions.function_sqlite3_column_name, (lent_0, N))?;
            let result = call.text_of(result)?;
            Ok(result)
        }
        /// `const void *sqlite3_column_name16(sqlite3_stmt *, int N)`
        pub fn sqlite3_column_name16(
            &self,
            argument_0: &::farcall::bind::Handle<super::sqlite3_stmt>,
            N: i32,
        ) -> ::farcall::Result<::farcall::ExecutorAddr> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(argument_0)?;
            let result = call
                .run(&self.functions.function_sqlite3_column_name16, (lent_0, N))?;
            Ok(result)
        }
        /// `const char *sqlite3_column_database_name(sqlite3_stmt *, int)`
        pub fn sqlite3_column_database_name(
            &self,
            argument_0: &::farcall::bind::Handle<super::sqlite3_stmt>,
            argument_1: i32,
        ) -> ::farcall::Result<Option<::std::ffi::CString>> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(argument_0)?;
            let result = call
                .run(
                    &self.functions.function_sqlite3_column_database_name,
                    (lent_0, argument_1),
                )?;
            let result = call.text_of(result)?;
            Ok(result)
        }
        /// `const void *sqlite3_column_database_name16(sqlite3_stmt *, int)`
        pub fn sqlite3_column_database_name16(
            &self,
            argument_0: &::farcall::bind::Handle<super::sqlite3_stmt>,
            argument_1: i32,
        ) -> ::farcall::Result<::farcall::ExecutorAddr> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(argument_0)?;
            let result = call
                .run(
                    &self.functions.function_sqlite3_column_database_name16,
                    (lent_0, argument_1),
                )?;
            Ok(result)
        }
        /// `const char *sqlite3_column_table_name(sqlite3_stmt *, int)`
        pub fn sqlite3_column_table_name(
            &self,
            argument_0: &::farcall::bind::Handle<super::sqlite3_stmt>,
            argument_1: i32,
        ) -> ::farcall::Result<Option<::std::ffi::CString>> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(argument_0)?;
            let result = call
                .run(
                    &self.functions.function_sqlite3_column_table_name,
                    (lent_0, argument_1),
                )?;
            let result = call.text_of(result)?;
            Ok(result)
        }
        /// `const void *sqlite3_column_table_name16(sqlite3_stmt *, int)`
        pub fn sqlite3_column_table_name16(
            &self,
            argument_0: &::farcall::bind::Handle<super::sqlite3_stmt>,
            argument_1: i32,
        ) -> ::farcall::Result<::farcall::ExecutorAddr> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(argument_0)?;
            let result = call
                .run(
                    &self.functions.function_sqlite3_column_table_name16,
                    (lent_0, argument_1),
                )?;
            Ok(result)
        }
        /// `const char *sqlite3_column_origin_name(sqlite3_stmt *, int)`
        pub fn sqlite3_column_origin_name(
            &self,
            argument_0: &::farcall::bind::Handle<super::sqlite3_stmt>,
            argument_1: i32,
        ) -> ::farcall::Result<Option<::std::ffi::CString>> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(argument_0)?;
            let result = call
                .run(
                    &self.functions.function_sqlite3_column_origin_name,
                    (lent_0, argument_1),
                )?;
            let result = call.text_of(result)?;
            Ok(result)
        }
        /// `const void *sqlite3_column_origin_name16(sqlite3_stmt *, int)`
        pub fn sqlite3_column_origin_name16(
            &self,
            argument_0: &::farcall::bind::Handle<super::sqlite3_stmt>,
            argument_1: i32,
        ) -> ::farcall::Result<::farcall::ExecutorAddr> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(argument_0)?;
            let result = call
                .run(
                    &self.functions.function_sqlite3_column_origin_name16,
                    (lent_0, argument_1),
                )?;
            Ok(result)
        }
        /// `const char *sqlite3_column_decltype(sqlite3_stmt *, int)`
        pub fn sqlite3_column_decltype(
            &self,
            argument_0: &::farcall::bind::Handle<super::sqlite3_stmt>,
            argument_1: i32,
        ) -> ::farcall::Result<Option<::std::ffi::CString>> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(argument_0)?;
            let result = call
                .run(
                    &self.functions.function_sqlite3_column_decltype,
                    (lent_0, argument_1),
                )?;
            let result = call.text_of(result)?;
            Ok(result)
        }
        /// `const void *sqlite3_column_decltype16(sqlite3_stmt *, int)`
        pub fn sqlite3_column_decltype16(
            &self,
            argument_0: &::farcall::bind::Handle<super::sqlite3_stmt>,
            argument_1: i32,
        ) -> ::farcall::Result<::farcall::ExecutorAddr> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(argument_0)?;
            let result = call
                .run(
                    &self.functions.function_sqlite3_column_decltype16,
                    (lent_0, argument_1),
                )?;
            Ok(result)
        }
        /// `int sqlite3_step(sqlite3_stmt *)`
        pub fn sqlite3_step(
            &self,
            argument_0: &::farcall::bind::Handle<super::sqlite3_stmt>,
        ) -> ::farcall::Result<i32> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(argument_0)?;
            let result = call.run(&self.functions.function_sqlite3_step, (lent_0,))?;
            Ok(result)
        }
        /// `const void *sqlite3_column_blob(sqlite3_stmt *, int iCol)`
        pub fn sqlite3_column_blob(
            &self,
            argument_0: &::farcall::bind::Handle<super::sqlite3_stmt>,
            iCol: i32,
        ) -> ::farcall::Result<::farcall::ExecutorAddr> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(argument_0)?;
            let result = call
                .run(&self.functions.function_sqlite3_column_blob, (lent_0, iCol))?;
            Ok(result)
        }
        /// `double sqlite3_column_double(sqlite3_stmt *, int iCol)`
        pub fn sqlite3_column_double(
            &self,
            argument_0: &::farcall::bind::Handle<super::sqlite3_stmt>,
            iCol: i32,
        ) -> ::farcall::Result<f64> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(argument_0)?;
            let result = call
                .run(&self.functions.function_sqlite3_column_double, (lent_0, iCol))?;
            Ok(result)
        }
        /// `int sqlite3_column_int(sqlite3_stmt *, int iCol)`
        pub fn sqlite3_column_int(
            &self,
            argument_0: &::farcall::bind::Handle<super::sqlite3_stmt>,
            iCol: i32,
        ) -> ::farcall::Result<i32> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(argument_0)?;
            let result = call
                .run(&self.functions.function_sqlite3_column_int, (lent_0, iCol))?;
            Ok(result)
        }
        /// `sqlite3_int64 sqlite3_column_int64(sqlite3_stmt *, int iCol)`
        pub fn sqlite3_column_int64(
            &self,
            argument_0: &::farcall::bind::Handle<super::sqlite3_stmt>,
            iCol: i32,
        ) -> ::farcall::Result<::farcall::bind::Untrusted<i64>> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(argument_0)?;
            let result = call
                .run(&self.functions.function_sqlite3_column_int64, (lent_0, iCol))?;
            let result = ::farcall::bind::Untrusted::new(result);
            Ok(result)
        }
        /// `const unsigned char *sqlite3_column_text(sqlite3_stmt *, int iCol)`
        pub fn sqlite3_column_text(
            &self,
            argument_0: &::farcall::bind::Handle<super::sqlite3_stmt>,
            iCol: i32,
        ) -> ::farcall::Result<::farcall::ExecutorAddr> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(argument_0)?;
            let result = call
                .run(&self.functions.function_sqlite3_column_text, (lent_0, iCol))?;
            Ok(result)
        }
        /// `const void *sqlite3_column_text16(sqlite3_stmt *, int iCol)`
        pub fn sqlite3_column_text16(
            &self,
            argument_0: &::farcall::bind::Handle<super::sqlite3_stmt>,
            iCol: i32,
        ) -> ::farcall::Result<::farcall::ExecutorAddr> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(argument_0)?;
            let result = call
                .run(&self.functions.function_sqlite3_column_text16, (lent_0, iCol))?;
            Ok(result)
        }
        /// `sqlite3_value *sqlite3_column_value(sqlite3_stmt *, int iCol)`
        pub fn sqlite3_column_value(
            &self,
            argument_0: &::farcall::bind::Handle<super::sqlite3_stmt>,
            iCol: i32,
        ) -> ::farcall::Result<::farcall::bind::Handle<super::sqlite3_value>> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(argument_0)?;
            let result = call
                .run(&self.functions.function_sqlite3_column_value, (lent_0, iCol))?;
            let result = call.returned(result);
            Ok(result)
        }
        /// `int sqlite3_column_bytes(sqlite3_stmt *, int iCol)`
        pub fn sqlite3_column_bytes(
            &self,
            argument_0: &::farcall::bind::Handle<super::sqlite3_stmt>,
            iCol: i32,
        ) -> ::farcall::Result<i32> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(argument_0)?;
            let result = call
                .run(&self.functions.function_sqlite3_column_bytes, (lent_0, iCol))?;
            Ok(result)
        }
        /// `int sqlite3_column_bytes16(sqlite3_stmt *, int iCol)`
        pub fn sqlite3_column_bytes16(
            &self,
            argument_0: &::farcall::bind::Handle<super::sqlite3_stmt>,
            iCol: i32,
        ) -> ::farcall::Result<i32> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(argument_0)?;
            let result = call
                .run(&self.functions.function_sqlite3_column_bytes16, (lent_0, iCol))?;
            Ok(result)
        }
        /// `int sqlite3_column_type(sqlite3_stmt *, int iCol)`
        pub fn sqlite3_column_type(
            &self,
            argument_0: &::farcall::bind::Handle<super::sqlite3_stmt>,
            iCol: i32,
        ) -> ::farcall::Result<i32> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(argument_0)?;
            let result = call
                .run(&self.functions.function_sqlite3_column_type, (lent_0, iCol))?;
            Ok(result)
        }
        /// `int sqlite3_finalize(sqlite3_stmt *pStmt)`
        pub fn sqlite3_finalize(
            &self,
            pStmt: &::farcall::bind::Handle<super::sqlite3_stmt>,
        ) -> ::farcall::Result<i32> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(pStmt)?;
            let result = call.run(&self.functions.function_sqlite3_finalize, (lent_0,))?;
            Ok(result)
        }
    }
}
/// An object that stays with the library.
#[derive(Debug)]
pub enum sqlite3 {}
/// An object that stays with the library.
#[derive(Debug)]
pub enum sqlite3_stmt {}
/// An object that stays with the library.
#[derive(Debug)]
pub enum sqlite3_value {}
pub const SQLITE_VERSION: &::core::ffi::CStr = c"3.40.1";
pub const SQLITE_OK: i32 = 0;
pub const SQLITE_MISUSE: i32 = 21;
pub const SQLITE_ROW: i32 = 100;
pub const SQLITE_DONE: i32 = 101;
