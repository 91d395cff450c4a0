// @generated
//! `Shapes` runs the library's functions in a process of their own. Written by `farcall bind shapes.h --hints shapes.toml`: change the header or the hints, and not this file.
//!
//! `print` is left out: it takes any number of arguments.
//! `origin` is left out: it passes the structure point by value.
//! `wide` is left out: the type long double does not cross.
#![allow(warnings, reason = "the names are the header's")]
pub use library::Shapes;
mod library {
    use ::farcall::bind::LibrarySource;
    const SOURCES: &[LibrarySource<'_>] = &[];
    /// The library in a process of its own. Cheap to clone; the last clone ends the process.
    #[derive(Debug, Clone)]
    pub struct Shapes {
        sandbox: ::farcall::bind::Sandbox,
        functions: ::std::sync::Arc<FunctionsOfTheLibrary>,
    }
    #[derive(Debug)]
    struct FunctionsOfTheLibrary {
        function_add: ::farcall::controller::Function<extern "C" fn(i32, i32) -> i32>,
        function_is_red: ::farcall::controller::Function<extern "C" fn(u32) -> bool>,
        function_next_color: ::farcall::controller::Function<extern "C" fn(u32) -> u32>,
        function_halves: ::farcall::controller::Function<
            extern "C" fn(f32, i8, u16, bool) -> f32,
        >,
        function_bits: ::farcall::controller::Function<extern "C" fn(i64) -> u64>,
        function_touch: ::farcall::controller::Function<extern "C" fn()>,
        function_mean: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr, u64) -> f64,
        >,
        function_negate: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr, u32),
        >,
        function_upper: ::farcall::controller::Function<
            extern "C" fn(
                ::farcall::ExecutorAddr,
                ::farcall::ExecutorAddr,
                ::farcall::ExecutorAddr,
            ) -> i32,
        >,
        function_checksum: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr, u64) -> i64,
        >,
        function_version: ::farcall::controller::Function<
            extern "C" fn() -> ::farcall::ExecutorAddr,
        >,
        function_join: ::farcall::controller::Function<
            extern "C" fn(
                ::farcall::ExecutorAddr,
                ::farcall::ExecutorAddr,
            ) -> ::farcall::ExecutorAddr,
        >,
        function_explain: ::farcall::controller::Function<
            extern "C" fn(i32, ::farcall::ExecutorAddr) -> i32,
        >,
        function_give_back: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr),
        >,
        function_turn: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr),
        >,
        function_distance: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr) -> f64,
        >,
        function_middle: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr, ::farcall::ExecutorAddr),
        >,
        function_change: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr) -> i32,
        >,
        function_sum_x: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr, u64) -> f64,
        >,
        function_split: ::farcall::controller::Function<
            extern "C" fn(f64, ::farcall::ExecutorAddr, ::farcall::ExecutorAddr) -> i32,
        >,
        function_shape_open: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr, f64, ::farcall::ExecutorAddr) -> i32,
        >,
        function_shape_copy: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr) -> ::farcall::ExecutorAddr,
        >,
        function_shape_size: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr) -> f64,
        >,
        function_shape_name: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr) -> ::farcall::ExecutorAddr,
        >,
        function_shape_close: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr),
        >,
        function_each: ::farcall::controller::Function<
            extern "C" fn(i32, ::farcall::ExecutorAddr, ::farcall::ExecutorAddr) -> i32,
        >,
        function_rows: ::farcall::controller::Function<
            extern "C" fn(i32, ::farcall::ExecutorAddr, ::farcall::ExecutorAddr) -> i32,
        >,
        function_introduce: ::farcall::controller::Function<
            extern "C" fn(
                ::farcall::ExecutorAddr,
                ::farcall::ExecutorAddr,
                ::farcall::ExecutorAddr,
            ) -> i32,
        >,
        function_keep: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr) -> ::farcall::ExecutorAddr,
        >,
        function_kept: ::farcall::controller::Function<extern "C" fn(i32) -> i32>,
        function_crash: ::farcall::controller::Function<extern "C" fn() -> i32>,
        function_hang: ::farcall::controller::Function<extern "C" fn() -> i32>,
        free_give_back: ::farcall::controller::Function<
            extern "C" fn(::farcall::ExecutorAddr),
        >,
    }
    impl Shapes {
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
                function_add: sandbox.function("add"),
                function_is_red: sandbox.function("is_red"),
                function_next_color: sandbox.function("next_color"),
                function_halves: sandbox.function("halves"),
                function_bits: sandbox.function("bits"),
                function_touch: sandbox.function("touch"),
                function_mean: sandbox.function("mean"),
                function_negate: sandbox.function("negate"),
                function_upper: sandbox.function("upper"),
                function_checksum: sandbox.function("checksum"),
                function_version: sandbox.function("version"),
                function_join: sandbox.function("join"),
                function_explain: sandbox.function("explain"),
                function_give_back: sandbox.function("give_back"),
                function_turn: sandbox.function("turn"),
                function_distance: sandbox.function("distance"),
                function_middle: sandbox.function("middle"),
                function_change: sandbox.function("change"),
                function_sum_x: sandbox.function("sum_x"),
                function_split: sandbox.function("split"),
                function_shape_open: sandbox.function("shape_open"),
                function_shape_copy: sandbox.function("shape_copy"),
                function_shape_size: sandbox.function("shape_size"),
                function_shape_name: sandbox.function("shape_name"),
                function_shape_close: sandbox.function("shape_close"),
                function_each: sandbox.function("each"),
                function_rows: sandbox.function("rows"),
                function_introduce: sandbox.function("introduce"),
                function_keep: sandbox.function("keep"),
                function_kept: sandbox.function("kept"),
                function_crash: sandbox.function("crash"),
                function_hang: sandbox.function("hang"),
                free_give_back: sandbox.function("give_back"),
            });
            Ok(Self { sandbox, functions })
        }
        /// The process, its memory, and its objects by address.
        pub fn sandbox(&self) -> &::farcall::bind::Sandbox {
            &self.sandbox
        }
        /// `int add(int a, int b)`
        pub fn add(&self, a: i32, b: i32) -> ::farcall::Result<i32> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let result = call.run(&self.functions.function_add, (a, b))?;
            Ok(result)
        }
        /// `_Bool is_red(enum color color)`
        pub fn is_red(&self, color: u32) -> ::farcall::Result<bool> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let result = call.run(&self.functions.function_is_red, (color,))?;
            Ok(result)
        }
        /// `enum color next_color(enum color color)`
        pub fn next_color(&self, color: u32) -> ::farcall::Result<u32> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let result = call.run(&self.functions.function_next_color, (color,))?;
            Ok(result)
        }
        /// `float halves(float a, signed char b, unsigned short c, _Bool d)`
        pub fn halves(&self, a: f32, b: i8, c: u16, d: bool) -> ::farcall::Result<f32> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let result = call.run(&self.functions.function_halves, (a, b, c, d))?;
            Ok(result)
        }
        /// `uint64_t bits(int64_t value)`
        pub fn bits(
            &self,
            value: i64,
        ) -> ::farcall::Result<::farcall::bind::Untrusted<u64>> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let result = call.run(&self.functions.function_bits, (value,))?;
            let result = ::farcall::bind::Untrusted::new(result);
            Ok(result)
        }
        /// `void touch()`
        pub fn touch(&self) -> ::farcall::Result<()> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let result = call.run(&self.functions.function_touch, ())?;
            Ok(())
        }
        /// `double mean(const double *values, size_t count)`
        pub fn mean(&self, values: &[f64]) -> ::farcall::Result<f64> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.numbers(&*values)?;
            let result = call
                .run(
                    &self.functions.function_mean,
                    (lent_0.address(), ::farcall::bind::length::<u64>(values.len())?),
                )?;
            Ok(result)
        }
        /// `void negate(int32_t *values, unsigned int count)`
        pub fn negate(&self, values: &mut [i32]) -> ::farcall::Result<()> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.numbers(&*values)?;
            let result = call
                .run(
                    &self.functions.function_negate,
                    (lent_0.address(), ::farcall::bind::length::<u32>(values.len())?),
                )?;
            call.fetch_numbers(lent_0, values)?;
            Ok(())
        }
        /// `int upper(const char *text, char *out, size_t *out_len)`
        pub fn upper<'a>(
            &self,
            text: impl ::core::convert::Into<Option<&'a ::core::ffi::CStr>>,
            out: &mut [u8],
        ) -> ::farcall::Result<(i32, ::farcall::bind::Untrusted<usize>)> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.text(text.into())?;
            let lent_1 = call.room_for(&*out)?;
            let lent_2 = call.structure(&::farcall::bind::length::<u64>(out.len())?)?;
            let result = call
                .run(
                    &self.functions.function_upper,
                    (lent_0, lent_1.address(), lent_2.address()),
                )?;
            let count_1 = ::farcall::bind::count(call.number::<u64>(lent_2)?);
            call.fetch_numbers(lent_1, ::farcall::bind::first(out, count_1))?;
            Ok((result, ::farcall::bind::Untrusted::new(count_1)))
        }
        /// `long checksum(const void *data, size_t size)`
        pub fn checksum(&self, data: &[u8]) -> ::farcall::Result<i64> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.numbers(&*data)?;
            let result = call
                .run(
                    &self.functions.function_checksum,
                    (lent_0.address(), ::farcall::bind::length::<u64>(data.len())?),
                )?;
            Ok(result)
        }
        /// `const char *version()`
        pub fn version(&self) -> ::farcall::Result<Option<::std::ffi::CString>> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let result = call.run(&self.functions.function_version, ())?;
            let result = call.text_of(result)?;
            Ok(result)
        }
        /// `char *join(const char *first, const char *second)`
        pub fn join<'a>(
            &self,
            first: impl ::core::convert::Into<Option<&'a ::core::ffi::CStr>>,
            second: impl ::core::convert::Into<Option<&'a ::core::ffi::CStr>>,
        ) -> ::farcall::Result<Option<::std::ffi::CString>> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.text(first.into())?;
            let lent_1 = call.text(second.into())?;
            let result = call.run(&self.functions.function_join, (lent_0, lent_1))?;
            let result = call.text_freed_by(result, &self.functions.free_give_back)?;
            Ok(result)
        }
        /// `int explain(int code, char **text)`
        pub fn explain(
            &self,
            code: i32,
            text: &mut Option<::std::ffi::CString>,
        ) -> ::farcall::Result<i32> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_1 = call.structure(&::farcall::ExecutorAddr::NULL)?;
            let result = call
                .run(&self.functions.function_explain, (code, lent_1.address()))?;
            *text = call
                .text_freed_by(call.number(lent_1)?, &self.functions.free_give_back)?;
            Ok(result)
        }
        /// `void give_back(void *text)`
        pub fn give_back(&self, text: ::farcall::ExecutorAddr) -> ::farcall::Result<()> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let result = call.run(&self.functions.function_give_back, (text,))?;
            Ok(())
        }
        /// `void turn(struct point *point)`
        pub fn turn(&self, point: &mut super::point) -> ::farcall::Result<()> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.structure(&*point)?;
            let result = call.run(&self.functions.function_turn, (lent_0.address(),))?;
            call.fetch(lent_0, std::slice::from_mut(point))?;
            Ok(())
        }
        /// `double distance(const line *line)`
        pub fn distance<'a>(
            &self,
            line: impl ::core::convert::Into<Option<&'a super::line>>,
        ) -> ::farcall::Result<f64> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.structure_or_null::<super::line>(line.into())?;
            let result = call.run(&self.functions.function_distance, (lent_0,))?;
            Ok(result)
        }
        /// `void middle(const line *line, struct point *point)`
        pub fn middle<'a>(
            &self,
            line: impl ::core::convert::Into<Option<&'a super::line>>,
            point: &mut super::point,
        ) -> ::farcall::Result<()> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.structure_or_null::<super::line>(line.into())?;
            let lent_1 = call.structure(&*point)?;
            let result = call
                .run(&self.functions.function_middle, (lent_0, lent_1.address()))?;
            call.fetch(lent_1, std::slice::from_mut(point))?;
            Ok(())
        }
        /// `int change(struct flags *flags)`
        pub fn change(&self, flags: &mut super::flags) -> ::farcall::Result<i32> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.structure(&*flags)?;
            let result = call.run(&self.functions.function_change, (lent_0.address(),))?;
            call.fetch(lent_0, std::slice::from_mut(flags))?;
            Ok(result)
        }
        /// `double sum_x(const struct point *points, size_t points_count)`
        pub fn sum_x(&self, points: &[super::point]) -> ::farcall::Result<f64> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.structures(&*points)?;
            let result = call
                .run(
                    &self.functions.function_sum_x,
                    (lent_0.address(), ::farcall::bind::length::<u64>(points.len())?),
                )?;
            Ok(result)
        }
        /// `int split(double value, int *whole, double *rest)`
        pub fn split(
            &self,
            value: f64,
            whole: &mut i32,
            rest: &mut f64,
        ) -> ::farcall::Result<i32> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_1 = call.structure(&*whole)?;
            let lent_2 = call.structure(&*rest)?;
            let result = call
                .run(
                    &self.functions.function_split,
                    (value, lent_1.address(), lent_2.address()),
                )?;
            call.fetch(lent_1, std::slice::from_mut(whole))?;
            call.fetch(lent_2, std::slice::from_mut(rest))?;
            Ok(result)
        }
        /// `int shape_open(const char *name, double size, struct shape **opened)`
        pub fn shape_open<'a>(
            &self,
            name: impl ::core::convert::Into<Option<&'a ::core::ffi::CStr>>,
            size: f64,
            opened: &mut ::farcall::bind::Handle<super::shape>,
        ) -> ::farcall::Result<i32> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.text(name.into())?;
            let lent_2 = call.handle_before(opened)?;
            let lent_2 = call.structure(&lent_2)?;
            let result = call
                .run(
                    &self.functions.function_shape_open,
                    (lent_0, size, lent_2.address()),
                )?;
            *opened = call.returned(call.number(lent_2)?);
            Ok(result)
        }
        /// `struct shape *shape_copy(const struct shape *shape)`
        pub fn shape_copy(
            &self,
            shape: &::farcall::bind::Handle<super::shape>,
        ) -> ::farcall::Result<::farcall::bind::Handle<super::shape>> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(shape)?;
            let result = call.run(&self.functions.function_shape_copy, (lent_0,))?;
            let result = call.returned(result);
            Ok(result)
        }
        /// `double shape_size(const struct shape *shape)`
        pub fn shape_size(
            &self,
            shape: &::farcall::bind::Handle<super::shape>,
        ) -> ::farcall::Result<f64> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(shape)?;
            let result = call.run(&self.functions.function_shape_size, (lent_0,))?;
            Ok(result)
        }
        /// `const char *shape_name(struct shape *shape)`
        pub fn shape_name(
            &self,
            shape: &::farcall::bind::Handle<super::shape>,
        ) -> ::farcall::Result<Option<::std::ffi::CString>> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(shape)?;
            let result = call.run(&self.functions.function_shape_name, (lent_0,))?;
            let result = call.text_of(result)?;
            Ok(result)
        }
        /// `void shape_close(struct shape *shape)`
        pub fn shape_close(
            &self,
            shape: &::farcall::bind::Handle<super::shape>,
        ) -> ::farcall::Result<()> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let lent_0 = call.handle(shape)?;
            let result = call.run(&self.functions.function_shape_close, (lent_0,))?;
            Ok(())
        }
        /// `int each(int count, visitor visit, void *data)`
        pub fn each(
            &self,
            count: i32,
            visit: Option<&mut dyn FnMut(i32, Option<&::core::ffi::CStr>, f64) -> i32>,
        ) -> ::farcall::Result<i32> {
            let sandbox = &self.sandbox;
            let mut visit = visit
                .map(|closure| move |
                    words: ::farcall::bind::Words<'_>,
                | -> ::farcall::Result<u64> {
                    let callback_1 = ::farcall::bind::argument::<i32>(words, 1usize);
                    let callback_2 = sandbox
                        .text(
                            ::farcall::bind::argument::<
                                ::farcall::ExecutorAddr,
                            >(words, 2usize),
                        )?;
                    let callback_3 = ::farcall::bind::argument::<f64>(words, 3usize);
                    Ok(
                        ::farcall::bind::Number::to_word(
                            closure(callback_1, callback_2.as_deref(), callback_3),
                        ),
                    )
                });
            let visit = visit
                .as_mut()
                .map(|closure| closure as &mut ::farcall::bind::Callback<'_>);
            ::farcall::bind::lend(
                &self.sandbox,
                visit,
                |lent_2| {
                    let mut call = ::farcall::bind::Call::new(&self.sandbox);
                    let lent_1 = match lent_2.is_null() {
                        true => ::farcall::ExecutorAddr::NULL,
                        false => {
                            call.callback(
                                &*self
                                    .sandbox
                                    .callback(
                                        "farcall closure (:: farcall :: ExecutorAddr, i32, :: farcall :: ExecutorAddr, f64) 0 i32",
                                        |identity| move |
                                            argument_0: ::farcall::ExecutorAddr,
                                            argument_1: i32,
                                            argument_2: ::farcall::ExecutorAddr,
                                            argument_3: f64,
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
                    let result = call
                        .run(&self.functions.function_each, (count, lent_1, lent_2))?;
                    Ok(result)
                },
            )
        }
        /// `int rows(int count, int (*row)(void *, int, char **, char **), void *data)`
        pub fn rows(
            &self,
            count: i32,
            row: Option<
                &mut dyn FnMut(
                    i32,
                    &[Option<::std::ffi::CString>],
                    &[Option<::std::ffi::CString>],
                ) -> i32,
            >,
        ) -> ::farcall::Result<i32> {
            let sandbox = &self.sandbox;
            let mut row = row
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
            let row = row
                .as_mut()
                .map(|closure| closure as &mut ::farcall::bind::Callback<'_>);
            ::farcall::bind::lend(
                &self.sandbox,
                row,
                |lent_2| {
                    let mut call = ::farcall::bind::Call::new(&self.sandbox);
                    let lent_1 = match lent_2.is_null() {
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
                    let result = call
                        .run(&self.functions.function_rows, (count, lent_1, lent_2))?;
                    Ok(result)
                },
            )
        }
        /// `int introduce(struct shape *shape, void (*met)(struct shape *, void *), void *data)`
        pub fn introduce(
            &self,
            shape: &::farcall::bind::Handle<super::shape>,
            met: Option<&mut dyn FnMut(&::farcall::bind::Handle<super::shape>)>,
        ) -> ::farcall::Result<i32> {
            let sandbox = &self.sandbox;
            let mut met = met
                .map(|closure| move |
                    words: ::farcall::bind::Words<'_>,
                | -> ::farcall::Result<u64> {
                    let callback_0 = sandbox
                        .handle(
                            ::farcall::bind::argument::<
                                ::farcall::ExecutorAddr,
                            >(words, 0usize),
                        )?;
                    closure(&callback_0);
                    Ok(0)
                });
            let met = met
                .as_mut()
                .map(|closure| closure as &mut ::farcall::bind::Callback<'_>);
            ::farcall::bind::lend(
                &self.sandbox,
                met,
                |lent_2| {
                    let mut call = ::farcall::bind::Call::new(&self.sandbox);
                    let lent_0 = call.handle(shape)?;
                    let lent_1 = match lent_2.is_null() {
                        true => ::farcall::ExecutorAddr::NULL,
                        false => {
                            call.callback(
                                &*self
                                    .sandbox
                                    .callback(
                                        "farcall closure (:: farcall :: ExecutorAddr, :: farcall :: ExecutorAddr) 1 ()",
                                        |identity| move |
                                            argument_0: ::farcall::ExecutorAddr,
                                            argument_1: ::farcall::ExecutorAddr,
                                        | -> ::farcall::Result<()> {
                                            ::farcall::bind::call_back(
                                                    identity,
                                                    argument_1,
                                                    &[
                                                        ::farcall::bind::Number::to_word(argument_0),
                                                        ::farcall::bind::Number::to_word(argument_1),
                                                    ],
                                                )
                                                .map(drop)
                                        },
                                    )?,
                            )?
                        }
                    };
                    let result = call
                        .run(
                            &self.functions.function_introduce,
                            (lent_0, lent_1, lent_2),
                        )?;
                    Ok(result)
                },
            )
        }
        /// `void *keep(void *memory)`
        pub fn keep(
            &self,
            memory: ::farcall::ExecutorAddr,
        ) -> ::farcall::Result<::farcall::ExecutorAddr> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let result = call.run(&self.functions.function_keep, (memory,))?;
            Ok(result)
        }
        /// `int kept(int at)`
        pub fn kept(&self, at: i32) -> ::farcall::Result<i32> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let result = call.run(&self.functions.function_kept, (at,))?;
            Ok(result)
        }
        /// `int crash()`
        pub fn crash(&self) -> ::farcall::Result<i32> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let result = call.run(&self.functions.function_crash, ())?;
            Ok(result)
        }
        /// `int hang()`
        pub fn hang(&self) -> ::farcall::Result<i32> {
            let mut call = ::farcall::bind::Call::new(&self.sandbox);
            let result = call.run(&self.functions.function_hang, ())?;
            Ok(result)
        }
    }
}
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct point {
    pub x: i16,
    pub y: f64,
    pub name: ::farcall::ExecutorAddr,
    pub parts: [u8; 3usize],
}
impl ::farcall::bind::Structure for point {
    const BYTES: usize = 32usize;
    const ALIGNMENT: usize = 8usize;
    fn write(&self, to: &mut [u8]) {
        ::farcall::bind::Structure::write(&self.x, &mut to[0usize..]);
        ::farcall::bind::Structure::write(&self.y, &mut to[8usize..]);
        ::farcall::bind::Structure::write(&self.name, &mut to[16usize..]);
        ::farcall::bind::Structure::write(&self.parts, &mut to[24usize..]);
    }
    fn read(from: &[u8]) -> Self {
        Self {
            x: ::farcall::bind::Structure::read(&from[0usize..]),
            y: ::farcall::bind::Structure::read(&from[8usize..]),
            name: ::farcall::bind::Structure::read(&from[16usize..]),
            parts: ::farcall::bind::Structure::read(&from[24usize..]),
        }
    }
}
impl ::core::default::Default for point {
    /// All bytes zero.
    fn default() -> Self {
        ::farcall::bind::Structure::read(&[0; 32usize])
    }
}
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct line {
    pub from: point,
    pub to: point,
}
impl ::farcall::bind::Structure for line {
    const BYTES: usize = 64usize;
    const ALIGNMENT: usize = 8usize;
    fn write(&self, to: &mut [u8]) {
        ::farcall::bind::Structure::write(&self.from, &mut to[0usize..]);
        ::farcall::bind::Structure::write(&self.to, &mut to[32usize..]);
    }
    fn read(from: &[u8]) -> Self {
        Self {
            from: ::farcall::bind::Structure::read(&from[0usize..]),
            to: ::farcall::bind::Structure::read(&from[32usize..]),
        }
    }
}
impl ::core::default::Default for line {
    /// All bytes zero.
    fn default() -> Self {
        ::farcall::bind::Structure::read(&[0; 64usize])
    }
}
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct flags {
    pub bytes: [u8; 8usize],
}
impl ::farcall::bind::Structure for flags {
    const BYTES: usize = 8usize;
    const ALIGNMENT: usize = 4usize;
    fn write(&self, to: &mut [u8]) {
        ::farcall::bind::Structure::write(&self.bytes, &mut to[0usize..]);
    }
    fn read(from: &[u8]) -> Self {
        Self {
            bytes: ::farcall::bind::Structure::read(&from[0usize..]),
        }
    }
}
impl ::core::default::Default for flags {
    /// All bytes zero.
    fn default() -> Self {
        ::farcall::bind::Structure::read(&[0; 8usize])
    }
}
/// An object that stays with the library.
#[derive(Debug)]
pub enum shape {}
pub const RED: u32 = 0;
pub const GREEN: u32 = 5;
pub const BLUE: u32 = 6;
pub const SHAPES_NAME_MAX: u32 = 32;
pub const SHAPES_VERSION: &::core::ffi::CStr = c"1.2";
pub const SHAPES_MAX: i32 = 64;
pub const SHAPES_HALF: f64 = 0.5f64;
pub const SHAPES_ALL: u64 = 18446744073709551615;
pub const SHAPES_LOWEST: i64 = -9223372036854775808;
