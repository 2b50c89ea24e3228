// Converts layers per pipeline stage between Megatron's arguments and a plan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline::model::megatron {

// Parses "Et*3|(tt|)*29,m|L" and returns the number of layers t between the bars. E, m and L (embedding, prediction,
// loss) must be where plumbline puts them. Returns nothing for other text or over a million items.
std::optional<std::vector<std::int64_t>> parse_layout(std::string_view text);

// Returns such a layout as text: "Et*3|t*4|...|t*2mL".
std::string layout_text(const std::vector<std::int64_t>& counts, bool prediction);

// Returns the layers of each stage when the first and the last rank hold `first` and `last` layers in all and the
// others share the rest evenly. Each rank divides its layers over its virtual stages. Nothing when that is uneven.
std::optional<std::vector<std::int64_t>> uneven_ends(std::int64_t layers, std::int64_t pipeline,
                                                     std::int64_t virtual_stages, std::optional<std::int64_t> first,
                                                     std::optional<std::int64_t> last);

}  // namespace plumbline::model::megatron
