// Layers per pipeline stage as Megatron's arguments give them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline::model::megatron {

// "Et*3|(tt|)*29,m|L": the layers t between the bars; E, m and L (embedding, prediction, loss) lie where plumbline puts
// them. Nothing when the text is anything else or has over a million items.
std::optional<std::vector<std::int64_t>> parse_layout(std::string_view text);

// The same written: "Et*3|t*4|...|t*2mL".
std::string layout_text(const std::vector<std::int64_t>& counts, bool prediction);

// The first and the last rank hold so many layers in all, the others share the rest evenly; each rank spreads its
// layers evenly over its virtual stages. Nothing when that does not divide.
std::optional<std::vector<std::int64_t>> uneven_ends(std::int64_t layers, std::int64_t pipeline,
                                                     std::int64_t virtual_stages, std::optional<std::int64_t> first,
                                                     std::optional<std::int64_t> last);

}  // namespace plumbline::model::megatron
