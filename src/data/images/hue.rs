//! Rotation of hues around the colour circle: red, green and blue are converted to hue, saturation and value
//! (Smith 1978), a share of the circle is added to the hue, and the colour is converted back. Grey stays
//! grey; images of one channel have no hue.

/// Returns the image `[3, height, width]` with every hue rotated by `by`, a share of the circle from -0.5 to
/// 0.5; images of one channel are returned unchanged.
pub fn rotate_hue(mut image: Vec<u8>, channels: usize, by: f32) -> Vec<u8> {
    if channels != 3 {
        return image;
    }
    let area = image.len() / 3;
    let (red, rest) = image.split_at_mut(area);
    let (green, blue) = rest.split_at_mut(area);
    for ((red, green), blue) in red.iter_mut().zip(green).zip(blue) {
        let [hue, saturation, value] =
            rgb_to_hsv([*red, *green, *blue].map(|p| f32::from(p) / 255.0));
        let hue = (hue + by).rem_euclid(1.0);
        let whole = hsv_to_rgb([hue, saturation, value]);
        [*red, *green, *blue] = whole.map(|x| (x * 255.0).round_ties_even() as u8);
    }
    image
}

/// Converts a colour to hue (as a share of the circle, starting at red), saturation and value, all from 0 to
/// 1.
fn rgb_to_hsv([red, green, blue]: [f32; 3]) -> [f32; 3] {
    let value = red.max(green).max(blue);
    let range = value - red.min(green).min(blue);
    if range == 0.0 {
        return [0.0, 0.0, value];
    }
    let sixths = match value {
        _ if value == red => (green - blue) / range,
        _ if value == green => 2.0 + (blue - red) / range,
        _ => 4.0 + (red - green) / range,
    };
    [(sixths / 6.0).rem_euclid(1.0), range / value, value]
}

/// Converts hue, saturation and value to a colour.
fn hsv_to_rgb([hue, saturation, value]: [f32; 3]) -> [f32; 3] {
    let place = hue * 6.0;
    let share = place - place.floor();
    let least = value * (1.0 - saturation);
    let falling = value * (1.0 - saturation * share);
    let rising = value * (1.0 - saturation * (1.0 - share));
    match place as usize % 6 {
        0 => [value, rising, least],
        1 => [falling, value, least],
        2 => [least, value, rising],
        3 => [least, falling, value],
        4 => [rising, least, value],
        _ => [value, least, falling],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_of_the_circle_makes_green_of_red() {
        let third = 1.0 / 3.0;
        assert_eq!(rotate_hue(vec![255, 0, 0], 3, third), [0, 255, 0]);
        assert_eq!(rotate_hue(vec![255, 0, 0], 3, -third), [0, 0, 255]);
        assert_eq!(rotate_hue(vec![0, 200, 100], 3, 0.0), [0, 200, 100]);
        assert_eq!(rotate_hue(vec![9, 9, 9], 3, 0.2), [9, 9, 9]);
        assert_eq!(rotate_hue(vec![9, 8, 7], 1, 0.2), [9, 8, 7]);
    }
}
