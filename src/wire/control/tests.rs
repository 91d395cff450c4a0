//! Every message there and back, every letter in every size, and the table of the page.

use super::*;
use crate::error::ErrorKind;
use crate::random::Random;

/// The page with the table.
const PAGE: &str = include_str!("../../docs/protocol.md");

/// Bytes that decode as a message of this form.
fn random_message(form: &Form, random: &mut Random) -> Vec<u8> {
    let mut bytes = vec![form.letter];
    let is_first = |bytes: &[u8]| bytes.len() == 1 && matches!(form.letter, b'l' | b'w');
    while bytes.len() < form.bytes {
        let number = if is_first(&bytes) { VERSION } else { random.word() };
        bytes.extend(number.to_le_bytes());
    }
    if form.has_text {
        let count = random.index(TEXT_BYTES_MAX + 1);
        bytes.extend((0..count).map(|_| b' ' + random.below(95).to_le_bytes()[0]));
    }
    bytes
}

#[test]
fn patterns_of_senders_agree_with_the_table() {
    let mut random = Random::new(1);
    for form in ControlMessage::FORMS {
        let message = ControlMessage::decode(&random_message(form, &mut random)).expect("right");
        let sender = match message {
            from_controller!() => Sender::Controller,
            from_executor!() => Sender::Executor,
            from_zygote!() => Sender::Zygote,
        };
        assert_eq!(sender, form.sender, "{form}");
    }
}

#[test]
fn letters_and_names_stay_as_they_are() {
    let forms: Vec<_> = ControlMessage::FORMS
        .iter()
        .map(|form| (char::from(form.letter), form.name, form.bytes, form.files))
        .collect();
    // A new message gets a line here. Never change one.
    let due = [
        ('l', "Begin", 17, 4),
        ('o', "Lane", 9, 1),
        ('p', "Pipeline", 9, 1),
        ('a', "ReverseLane", 1, 1),
        ('n', "NoLane", 1, 0),
        ('s', "Slab", 9, 3),
        ('m', "Region", 9, 1),
        ('f', "Freeze", 1, 1),
        ('k', "Fork", 1, 2),
        ('e', "Collect", 9, 0),
        ('h', "Start", 1, 5),
        ('j', "StartAhead", 1, 1),
        ('t', "Take", 1, 4),
        ('b', "Interrupt", 33, 0),
        ('r', "RequestLane", 1, 0),
        ('x', "Refused", 9, 0),
        ('g', "NotInterrupted", 9, 0),
        ('c', "Sweeper", 9, 0),
        ('w', "LastWords", 17, 0),
        ('z', "Frozen", 1, 0),
        ('y', "NotFrozen", 1, 0),
        ('d', "Lost", 1, 0),
        ('i', "Forked", 9, 0),
        ('u', "NotForked", 1, 0),
    ];
    assert_eq!(forms, due);
    let mut letters: Vec<_> = due.iter().map(|(letter, ..)| letter).collect();
    letters.sort_unstable();
    letters.dedup();
    assert_eq!(letters.len(), due.len(), "two messages share a letter");
}

#[test]
fn every_message_comes_back_from_its_bytes() {
    let mut random = Random::new(1);
    for form in ControlMessage::FORMS {
        for _ in 0..200 {
            let bytes = random_message(form, &mut random);
            let message = ControlMessage::decode(&bytes).expect("decodes");
            assert_eq!(message.form(), *form);
            assert_eq!(message.encode(), bytes, "{message:?}");
        }
    }
    let why = || "no memory".to_owned();
    for (message, bytes) in [
        (ControlMessage::Freeze, &b"f"[..]),
        (ControlMessage::Lane { number: 0x0102 }, b"o\x02\x01\0\0\0\0\0\0"),
        (ControlMessage::Refused { number: 3, why: why() }, b"x\x03\0\0\0\0\0\0\0no memory"),
        (ControlMessage::NotForked { why: why() }, b"uno memory"),
    ] {
        assert_eq!(message.encode(), bytes);
        assert_eq!(ControlMessage::decode(bytes).expect("decodes"), message);
    }
}

#[test]
fn other_letters_and_sizes_are_refused_by_name() {
    let mut accepted = 0;
    for letter in 0..=u8::MAX {
        let form = ControlMessage::FORMS.iter().find(|form| form.letter == letter);
        for count in 0..=MESSAGE_BYTES_MAX + 1 {
            let mut bytes = vec![letter];
            bytes.extend(VERSION.to_le_bytes());
            bytes.resize(count.max(9), b'.');
            bytes.truncate(count);
            let is_due = form.is_some_and(|form| {
                let most = form.bytes + if form.has_text { TEXT_BYTES_MAX } else { 0 };
                (form.bytes..=most).contains(&count)
            });
            match ControlMessage::decode(&bytes) {
                Ok(message) => assert!(is_due, "{message:?} of {count} bytes"),
                Err(error) => {
                    assert!(!is_due, "{count} bytes: {error}");
                    assert_eq!(error.kind(), ErrorKind::Violation);
                    let text = error.to_string();
                    let named = text.contains(&format!("0x{letter:02x}"));
                    assert!(named || count == 0 && text.contains("empty"), "{text}");
                    assert!(text.contains("from one build"), "{text}");
                }
            }
            accepted += usize::from(is_due);
        }
    }
    // Five messages have a text.
    assert!(accepted > 5 * TEXT_BYTES_MAX, "{accepted}");
}

#[test]
fn random_bytes_decode_to_what_encodes_again() {
    let mut random = Random::new(2);
    let mut decoded = 0;
    for _ in 0..20_000 {
        let form = random.pick(ControlMessage::FORMS);
        let mut bytes = random_message(&form, &mut random);
        for _ in 0..random.below(4) {
            let at = random.index(bytes.len());
            bytes[at] = random.word().to_le_bytes()[0];
        }
        if random.one_in(4) {
            bytes.resize(random.index(2 * bytes.len() + 1), 0xff);
        }
        let Ok(message) = ControlMessage::decode(&bytes) else { continue };
        decoded += 1;
        let encoded = message.encode();
        assert!(encoded.len() <= MESSAGE_BYTES_MAX);
        assert_eq!(ControlMessage::decode(&encoded).expect("decodes"), message);
    }
    assert!(decoded > 5_000, "{decoded}");
}

#[test]
fn texts_are_cut_and_have_no_control_characters() {
    let why = "\u{e9}".repeat(TEXT_BYTES_MAX);
    let bytes = ControlMessage::Lost { why: format!(".{why}") }.encode();
    assert_eq!(bytes.len(), 1 + TEXT_BYTES_MAX - 1, "cut inside of a character");
    ControlMessage::decode(&bytes).expect("decodes");
    let text = |bytes: &[u8]| match ControlMessage::decode(bytes).expect("decodes") {
        ControlMessage::NotFrozen { why } => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(text(b"y\x1b[2J\nfake\xff\0"), " [2J fake\u{fffd} ");
    // Each byte becomes three.
    let text = text(&[&b"y"[..], &[0xff; TEXT_BYTES_MAX]].concat());
    assert!(text.len() <= TEXT_BYTES_MAX && text.starts_with('\u{fffd}'), "{text}");
}

#[test]
fn the_version_is_read_in_messages_of_any_version() {
    for letter in [b'l', b'w'] {
        for tail in [0, 1, 8, 100, 2 * MESSAGE_BYTES_MAX] {
            let bytes = [&[letter][..], &99_u64.to_le_bytes(), &vec![0xff; tail]].concat();
            let (ControlMessage::Begin { hello } | ControlMessage::LastWords { hello, .. }) =
                ControlMessage::decode(&bytes).expect("decodes")
            else {
                panic!("another message")
            };
            assert_eq!(hello, Hello { version: 99, features: Features::default() });
        }
    }
}

#[test]
fn a_message_of_a_missing_feature_is_refused_before_it_is_sent() {
    let none = Features::default();
    let error = ControlMessage::Freeze.check(none, "executor").expect_err("no snapshots");
    assert!(error.to_string().contains("without snapshots"), "{error}");
    ControlMessage::Freeze.check(Features::OWN, "executor").expect("this build's");
    ControlMessage::Lane { number: 1 }.check(none, "executor").expect("every build's");
}

#[test]
fn the_page_has_each_message() {
    let rows: Vec<Vec<&str>> = PAGE
        .lines()
        .skip_while(|line| !line.starts_with("| letter |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.split('|').map(str::trim).skip(1).collect())
        .collect();
    assert_eq!(rows.len(), ControlMessage::FORMS.len(), "a row for each message");
    for (form, row) in ControlMessage::FORMS.iter().zip(rows) {
        let [letter, name, sender, bytes, files, needs, ..] = row[..] else { panic!("{row:?}") };
        assert_eq!(letter, format!("`{}`", char::from(form.letter)));
        assert_eq!(name, form.name);
        assert!(
            form.sender.to_string().ends_with(sender.split(',').next().unwrap_or("")),
            "{row:?}"
        );
        let text = if form.has_text { " and text" } else { "" };
        assert_eq!(bytes.split(':').next(), Some(&*format!("{}{text}", form.bytes)), "{row:?}");
        let count = if form.files == 0 { String::new() } else { form.files.to_string() };
        assert_eq!(files.split(':').next(), Some(&*count), "{row:?}");
        assert_eq!(needs, form.feature.map_or("", Feature::name), "{row:?}");
    }
}
