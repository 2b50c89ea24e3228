#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "reports/text/format.h"
#include "reports/text/memory_report.h"

namespace plumbline::reports {
namespace {

constexpr std::size_t plot_width = 88, plot_height = 18;

// From the bottom up, what stays first.
using Item = std::pair<char, std::string_view>;
constexpr std::array<Item, 7> items = {Item{'p', "parameters"}, Item{'g', "gradients"},   Item{'o', "optimizer"},
                                       Item{'r', "reserve"},    Item{'a', "activations"}, Item{'c', "communication"},
                                       Item{'t', "temporary"}};

std::array<double, items.size()> bytes_of(const model::RankMemory& rank, const model::MemoryLevel& level) {
  return {rank.parameters_bytes,   rank.gradients_bytes,      rank.optimizer_bytes, rank.reserve_bytes,
          level.activations_bytes, level.communication_bytes, level.temporary_bytes};
}

// The letter of what lies at a height of a column, ' ' above all.
char letter_at(const std::array<double, items.size()>& bytes, double height) {
  for (std::size_t i = 0; i < items.size(); ++i)
    if ((height -= bytes[i]) < 0) return items[i].first;
  return ' ';
}

// Of the ops that share a column the fullest; few ops take several columns each.
std::vector<const model::MemoryLevel*> columns_of(const std::vector<model::MemoryLevel>& ops) {
  std::vector<const model::MemoryLevel*> columns;
  const std::size_t count = std::min(ops.size(), plot_width);
  for (std::size_t i = 0; i < count; ++i) {
    const auto first = ops.begin() + static_cast<std::ptrdiff_t>(i * ops.size() / count);
    const auto last = ops.begin() + static_cast<std::ptrdiff_t>((i + 1) * ops.size() / count);
    const auto fullest =
        std::max_element(first, last, [](const auto& a, const auto& b) { return a.total_bytes < b.total_bytes; });
    columns.insert(columns.end(), plot_width / count, &*fullest);
  }
  return columns;
}

}  // namespace

std::string memory_plot(const model::RankLevels& levels, double capacity_bytes, Style style) {
  const model::RankMemory& rank = levels.rank;
  const auto columns = columns_of(levels.ops);
  const double top = std::max(capacity_bytes, rank.peak_bytes);
  if (columns.empty() || top <= 0) return "";
  std::string out = heading(fmt::format("Rank {} over the step (GB)", rank.rank), style);
  const double row_bytes = top / static_cast<double>(plot_height);
  const auto row_of = [row_bytes](double bytes) { return static_cast<std::size_t>(std::ceil(bytes / row_bytes)); };
  for (std::size_t row = plot_height + 1; row-- > 0;) {
    const double middle = (static_cast<double>(row) + 0.5) * row_bytes;
    const bool limit = row == row_of(capacity_bytes);
    std::string line = limit          ? fmt::format("{:>6} +", gigabytes(capacity_bytes))
                       : row % 3 == 0 ? fmt::format("{:>6} |", gigabytes(static_cast<double>(row) * row_bytes))
                                      : fmt::format("{:>6} |", "");
    for (const model::MemoryLevel* level : columns) {
      const char letter = letter_at(bytes_of(rank, *level), middle);
      line += limit && letter == ' ' ? '-' : letter;
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + '\n';
  }
  const std::string last = fmt::format("op {}", levels.ops.size() - 1);
  out += fmt::format("{:>6} +{}\n", "", std::string(columns.size(), '-'));
  out += fmt::format("{:>8}op 0{:>{}}\n", "", last, std::max<std::size_t>(columns.size(), 12) - 4);
  std::string legend;
  for (const auto& [letter, name] : items) legend += fmt::format("{}{} {}", legend.empty() ? "" : ", ", letter, name);
  return out + paragraph(fmt::format("{}. Dashes: capacity. Each column: the fullest moment of its ops.", legend));
}

}  // namespace plumbline::reports
