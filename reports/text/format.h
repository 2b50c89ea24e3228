// Numbers and text for people. No function uses the locale, so that outputs are reproducible.
#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace plumbline::reports {

std::string fixed(double value, int digits);  // 2.50
std::string grouped(double value);            // rounded to an integer: 2,664,000
std::string grouped(std::integral auto value) { return grouped(static_cast<double>(value)); }
std::string number(double value);                // four digits, grouped from 10,000 on: 20.00, 2,664,000
std::string duration(double seconds);            // four digits with the fitting unit: 19.93 s, 129.0 ms, 12.00 us
std::string gigabytes(double bytes);             // 1 GB = 1e9 B, one decimal, no unit: 84.9
std::string percent(double fraction);            // 0.438 -> 43.8 %
std::string signed_percent(double fraction);     // 0.012 -> +1.2 %
std::string scaled(double value);                // 14.80 T, 2.664 M, 512
std::string escape_html(std::string_view text);  // for HTML and SVG; control characters become U+FFFD
std::string escape_json(std::string_view text);  // for the inside of a JSON string

}  // namespace plumbline::reports
