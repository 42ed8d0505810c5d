use super::Error;

#[test]
fn errors_show_their_message() {
    let error = Error::argument("dropout", "p", "from 0 to 1", 2);
    assert_eq!(format!("{error:?}"), "dropout: p must be from 0 to 1, found 2");
    assert_eq!(Error::other("no such class").to_string(), "no such class");
    let parsed = "x".parse::<usize>().map_err(Error::other).unwrap_err();
    assert_eq!(parsed.to_string(), "invalid digit found in string");
}

/// Half of what lints and calling conventions call large.
#[test]
fn an_error_is_small() {
    assert!(size_of::<Error>() <= 64, "{} bytes", size_of::<Error>());
}
