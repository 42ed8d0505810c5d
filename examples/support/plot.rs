//! The plot of several runs: loss curves above, the loss scale below.

use super::{Precision, Run};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::error::Error;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn Error>>;

const SIZE: (u32, u32) = (900, 640);

/// Draws the runs as an SVG document.
pub fn svg(title: &str, runs: &[Run]) -> String {
    let mut document = String::new();
    draw(&mut document, title, runs).expect("drawing into memory does not fail");
    document
}

fn draw(document: &mut String, title: &str, runs: &[Run]) -> Drawn {
    let root = SVGBackend::with_string(document, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let root = root.titled(title, ("sans-serif", 20))?;
    let (above, below) = root.split_vertically(SIZE.1 * 2 / 3);
    losses(&above, runs)?;
    scales(&below, runs)?;
    root.present()?;
    Ok(())
}

fn losses(area: &Area<'_>, runs: &[Run]) -> Drawn {
    let curves: Vec<_> = runs.iter().map(|run| (run.precision, smooth(run))).collect();
    let finite = || curves.iter().flat_map(|(_, y)| y).copied().filter(|y| y.is_finite() && *y > 0.0);
    let (low, high) = (finite().fold(f32::MAX, f32::min), finite().fold(f32::MIN_POSITIVE, f32::max));
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .x_label_area_size(30)
        .y_label_area_size(70)
        .build_cartesian_2d(0..steps(runs), (low.min(high) * 0.8..high * 1.2).log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .y_desc("training loss")
        .y_label_formatter(&|y| format!("{y:.3}"))
        .draw()?;
    for (precision, curve) in curves {
        let points = curve.into_iter().enumerate().filter(|(_, y)| y.is_finite() && *y > 0.0);
        let style = stroke(precision);
        chart
            .draw_series(LineSeries::new(points, style))?
            .label(precision.to_string())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
    }
    chart.configure_series_labels().background_style(WHITE).border_style(BLACK).draw()?;
    Ok(())
}

fn scales(area: &Area<'_>, runs: &[Run]) -> Drawn {
    let all = || runs.iter().flat_map(|run| &run.scales).map(|scale| scale.log2());
    let (low, high) = (all().fold(16.0, f32::min), all().fold(16.0, f32::max));
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(0..steps(runs), low - 1.0..high + 1.0)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc("step")
        .y_desc("loss scale")
        .y_labels(6)
        .y_label_formatter(&|y| format!("2^{y:.0}"))
        .draw()?;
    for run in runs {
        let points = run.scales.iter().map(|scale| scale.log2()).enumerate();
        chart.draw_series(LineSeries::new(points, stroke(run.precision)))?;
    }
    Ok(())
}

/// Running mean over a twentieth of the run, so that curves of small batches can be told apart.
fn smooth(run: &Run) -> Vec<f32> {
    let keep = 1.0 - 1.0 / (run.losses.len() as f32 / 20.0).max(1.0);
    let mut mean = run.losses.first().copied().unwrap_or(0.0);
    let mut step = |&loss: &f32| {
        mean = keep * mean + (1.0 - keep) * loss;
        mean
    };
    run.losses.iter().map(&mut step).collect()
}

fn steps(runs: &[Run]) -> usize {
    runs.iter().map(|run| run.losses.len()).max().unwrap_or(0).max(1)
}

/// The first is the widest, so that curves that lie on one another can all be seen.
fn stroke(precision: Precision) -> ShapeStyle {
    match precision {
        Precision::F32 => RGBColor(0xb0, 0xb0, 0xb0).stroke_width(6),
        Precision::F16 => RGBColor(0xd0, 0x50, 0x10).stroke_width(3),
        Precision::Bf16 => RGBColor(0x10, 0x50, 0xc0).stroke_width(1),
    }
}
