//! The digits example: its data loader, and its command line as a user meets it.

#[path = "../examples/support/mod.rs"]
mod support;

use std::path::PathBuf;
use std::process::{Command, Output};
use std::{env, fs};
use support::{digits as data, shipped_data as shipped};

/// A directory of this test's own, removed when it ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("amp-digits-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn files(&self) -> Vec<String> {
        fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Runs the example in `directory`; `cargo test` has built it, a single `--test digits` has not.
fn example(directory: &Scratch, arguments: &[&str]) -> Output {
    let deps = env::current_exe().unwrap();
    let examples = deps.parent().unwrap().parent().unwrap().join("examples");
    let binary = examples.join(format!("digits{}", env::consts::EXE_SUFFIX));
    if !binary.exists() {
        let release = (!cfg!(debug_assertions)).then_some("--release");
        let built = Command::new(env!("CARGO")).args(["build", "--example", "digits"]).args(release).status().unwrap();
        assert!(built.success());
    }
    Command::new(binary).current_dir(&directory.0).args(arguments).output().unwrap()
}

/// Fails with code 2, says all of `words` and leaves no file behind.
fn refused(name: &str, arguments: &[&str], words: &[&str]) {
    let directory = Scratch::new(name);
    check_refused(&example(&directory, arguments), words);
    assert!(directory.files().is_empty());
}

fn check_refused(output: &Output, words: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    for word in words {
        assert!(text.contains(word), "`{word}` is missing in: {text}");
    }
    assert!(output.stdout.is_empty());
}

#[test]
fn reads_every_image_of_the_shipped_file() {
    let digits = data::load(&shipped()).unwrap();
    assert_eq!(digits.len(), 1797);
    for class in 0..data::CLASSES as i64 {
        let count = digits.iter().filter(|digit| digit.class == class).count();
        assert!((174..=183).contains(&count), "{count} images of {class}");
    }
    let pixels = || digits.iter().flat_map(|digit| digit.pixels);
    assert_eq!(pixels().fold(f32::MAX, f32::min), 0.0);
    assert_eq!(pixels().fold(f32::MIN, f32::max), 1.0);
    assert_eq!(digits[0].pixels[..6], [0.0, 0.0, 5.0 / 16.0, 13.0 / 16.0, 9.0 / 16.0, 1.0 / 16.0]);
}

#[test]
fn malformed_lines_are_named() {
    let good = format!("{}7\n", "3,".repeat(64)).repeat(10);
    assert_eq!(data::parse(&good).unwrap().len(), 10);
    let refused = |text: &str, problem: &str| assert_eq!(data::parse(text).unwrap_err(), problem);
    refused(&(good.clone() + "1,2,3\n"), "line 11: has 3 values, expected 64 pixels and a class");
    refused(&good.replacen("3,", "17,", 1), "line 1: `17` is not a number of 0..=16");
    refused(&good.replacen("3,", "-1,", 1), "line 1: `-1` is not a number of 0..=16");
    refused(&good.replacen("3,", "nan,", 1), "line 1: `nan` is not a number of 0..=16");
    refused(&good.replacen(",7\n", ",10\n", 1), "line 1: `10` is not a number of 0..=9");
    refused(&good.replacen("3,", ",", 1), "line 1: `` is not a number of 0..=16");
    refused("", "has 0 images, at least 10 are needed");
}

#[test]
fn the_split_holds_out_a_fifth_and_follows_the_seed() {
    let digits = data::load(&shipped()).unwrap();
    let device = amp::Device::cpu();
    let split = |seed| data::split(&digits, seed, &device).unwrap();
    let (a, b, c) = (split(1), split(1), split(2));
    assert_eq!((a.train.len(), a.test.len()), (1438, 359));
    assert!(a.test == b.test && a.train == b.train);
    assert!(a.test != c.test);
    let key = |digit: &data::Digit| (digit.class, digit.pixels.map(f32::to_bits));
    let mut parts: Vec<_> = a.train.iter().chain(&a.test).map(key).collect();
    let mut whole: Vec<_> = digits.iter().map(key).collect();
    parts.sort_unstable();
    whole.sort_unstable();
    assert!(parts == whole);
}

#[test]
fn moving_a_digit_shifts_its_pixels() {
    let digit = data::Digit { pixels: std::array::from_fn(|i| i as f32), class: 4 };
    assert_eq!(digit.moved(0, 0), digit);
    let moved = digit.moved(1, -1);
    assert_eq!(moved.class, 4);
    assert_eq!(moved.pixels[..8], [0.0; 8]);
    assert_eq!(moved.pixels[8..16], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 0.0]);
}

#[test]
fn batches_keep_the_order_and_moves_follow_the_seed() {
    let digits = &data::load(&shipped()).unwrap()[..5];
    let device = amp::Device::cpu();
    let (images, classes) = data::batch(digits.iter(), &device).unwrap();
    assert_eq!(images.dims(), [5, 1, 8, 8]);
    assert_eq!(classes.to_vec().unwrap(), [0, 1, 2, 3, 4]);
    assert_eq!(images.to_vec().unwrap()[64..128], digits[1].pixels);
    let moved = || {
        amp::manual_seed(4);
        data::moved_batch(digits, &[0, 1, 2, 3, 4], &device).unwrap().0.to_vec().unwrap()
    };
    assert_eq!(moved(), moved());
    assert_ne!(moved(), images.to_vec().unwrap(), "five digits stay put once in 59,049 seeds; this is seed 4");
}

#[test]
fn cifar_records_become_images() {
    let mut bytes = vec![0; 2 * 3073];
    bytes[0] = 9;
    bytes[1] = 255;
    bytes[3073 + 3072] = 255;
    let images = support::cifar::parse(&bytes).unwrap();
    assert_eq!((images.len(), images[0].class, images[1].class), (2, 9, 0));
    // White and black in the first and the last channel, by the data set's mean and deviation.
    let at = |i: usize, j: usize, wanted: f32| assert!((images[i].pixels[j] - wanted).abs() <= 1e-5);
    at(0, 0, (1.0 - 0.4914) / 0.2470);
    at(1, 3071, (1.0 - 0.4465) / 0.2616);
    at(1, 3070, -0.4465 / 0.2616);

    let refused = |bytes: &[u8], problem: &str| assert_eq!(support::cifar::parse(bytes).unwrap_err(), problem);
    refused(&bytes[1..], "has 6145 bytes, expected a multiple of 3073");
    refused(&[], "has 0 bytes, expected a multiple of 3073");
    bytes[3073] = 10;
    refused(&bytes, "image 1 has class 10, expected 0..=9");
}

#[test]
fn help_names_every_option() {
    let output = example(&Scratch::new("help"), &["--help"]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    for option in ["--epochs", "--precision", "--seed", "--data", "--out"] {
        assert!(text.contains(option), "{option} is missing in: {text}");
    }
}

#[test]
fn bad_options_are_refused() {
    refused("epochs-0", &["--epochs", "0"], &["--epochs", "'0'"]);
    refused("epochs-word", &["--epochs", "many"], &["--epochs", "'many'"]);
    refused("precision", &["--precision", "f8"], &["--precision", "'f8'", "bf16"]);
    refused("seed", &["--seed", "-1"], &["-1"]);
    refused("unknown", &["--speed", "3"], &["--speed"]);
}

#[test]
fn unusable_data_is_refused() {
    refused("no-directory", &["--data", "no/such/directory"], &["no/such/directory", "cannot be opened"]);
    let directory = Scratch::new("data");
    let file = directory.0.join("digits.csv.gz");
    let run = || example(&directory, &["--data", "."]);

    let whole = fs::read(shipped().join("digits.csv.gz")).unwrap();
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    check_refused(&run(), &["digits.csv.gz", "cannot be unpacked"]);
    fs::write(&file, "0,1,2,3\n").unwrap();
    check_refused(&run(), &["digits.csv.gz", "cannot be unpacked"]);
    fs::write(&file, "").unwrap();
    check_refused(&run(), &["digits.csv.gz"]);
    assert_eq!(directory.files(), ["digits.csv.gz"]);
}

#[test]
fn an_unwritable_plot_is_refused_before_training() {
    refused("no-place", &["--out", "no/such/directory/plot.svg"], &["no/such/directory/plot.svg", "cannot be written"]);
    refused("png", &["--out", "plot.png"], &["plot.png", ".svg"]);
    let directory = Scratch::new("directory");
    fs::create_dir(directory.0.join("plot.svg")).unwrap();
    check_refused(&example(&directory, &["--out", "plot.svg"]), &["plot.svg", "is a directory"]);
}

#[test]
fn a_short_training_prints_the_table_and_writes_the_plot() {
    let directory = Scratch::new("train");
    let output = example(&directory, &["--epochs", "1", "--seed", "3", "--out", "curves.svg"]);
    let (text, errors) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{errors}");
    assert_eq!(errors, "", "progress bars belong on a terminal only");
    for row in ["f32", "f16", "bf16"] {
        let line = text.lines().find(|line| line.trim_start().starts_with(row));
        let accuracy: f64 = line.unwrap().split_whitespace().nth(1).unwrap().parse().unwrap();
        assert!(accuracy > 50.0, "{row} learns nothing in an epoch (seed 3): {text}");
    }
    assert_eq!(directory.files(), ["curves.svg"]);
    let plot = fs::read_to_string(directory.0.join("curves.svg")).unwrap();
    assert!(plot.starts_with("<svg") && plot.trim_end().ends_with("</svg>"));
    assert!(!plot.contains("NaN") && plot.matches("<polyline").count() >= 4, "three loss curves and a scale");
}
