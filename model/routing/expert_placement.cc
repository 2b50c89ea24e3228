#include "model/routing/expert_placement.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace plumbline::model {
namespace {

double fullest(const ExpertPlacement& placement, const std::vector<double>& load) {
  std::vector<double> ranks;
  placement.rank_loads(load, ranks);
  return std::ranges::max(ranks);
}

// Copies the experts [first, first + count) `redundant` times and packs them on the ranks from `rank` on.
void pack_group(const std::vector<double>& load, std::size_t first, std::size_t count, std::size_t redundant,
                std::size_t rank, std::size_t ranks, ExpertPlacement& placement) {
  std::vector<std::int32_t> items(count);
  std::iota(items.begin(), items.end(), static_cast<std::int32_t>(first));
  const auto per_copy = [&](std::int32_t e) { return load[static_cast<std::size_t>(e)] / placement.copies[e]; };
  for (std::size_t i = 0; i < redundant; ++i) {
    const auto heaviest = *std::max_element(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(count),
                                            [&](auto a, auto b) { return per_copy(a) < per_copy(b); });
    ++placement.copies[static_cast<std::size_t>(heaviest)];
    items.push_back(heaviest);
  }
  std::ranges::stable_sort(items, [&](auto a, auto b) { return per_copy(a) > per_copy(b); });
  const std::size_t slots = (count + redundant) / ranks;
  std::vector<double> filled(ranks);
  std::vector<std::size_t> used(ranks);
  for (const std::int32_t item : items) {
    std::size_t least = ranks;
    for (std::size_t r = 0; r < ranks; ++r)
      if (used[r] < slots && (least == ranks || filled[r] < filled[least])) least = r;
    placement.experts[(rank + least) * slots + used[least]++] = item;
    filled[least] += per_copy(item);
  }
}

// Every rank copies its own most loaded experts, which leaves its load as it is.
ExpertPlacement own_copies(const std::vector<double>& load, std::int64_t ranks, std::int64_t redundant) {
  const auto count = static_cast<std::int64_t>(load.size());
  const std::int64_t own = count / ranks, more = redundant / ranks;
  ExpertPlacement placement{ranks, {}, std::vector<std::int32_t>(load.size(), 1)};
  for (std::int64_t r = 0; r < ranks; ++r) {
    for (std::int64_t e = 0; e < own; ++e) placement.experts.push_back(static_cast<std::int32_t>(r * own + e));
    for (std::int64_t i = 0; i < more; ++i) {
      const auto expert = static_cast<std::int32_t>(r * own + i % own);
      placement.experts.push_back(expert);
      ++placement.copies[static_cast<std::size_t>(expert)];
    }
  }
  return placement;
}

}  // namespace

void ExpertPlacement::rank_loads(const std::vector<double>& load, std::vector<double>& ranks_load) const {
  const std::size_t slots = experts.size() / static_cast<std::size_t>(ranks);
  ranks_load.assign(static_cast<std::size_t>(ranks), 0);
  for (std::size_t i = 0; i < experts.size(); ++i) {
    const auto expert = static_cast<std::size_t>(experts[i]);
    ranks_load[i / slots] += load[expert] / copies[expert];
  }
}

ExpertPlacement contiguous_experts(std::int64_t experts, std::int64_t ranks) {
  return own_copies(std::vector<double>(static_cast<std::size_t>(experts)), ranks, 0);
}

ExpertPlacement balanced_experts(const std::vector<double>& load, std::int64_t ranks, std::int64_t redundant,
                                 std::int64_t groups) {
  if (ranks % groups != 0 || redundant % groups != 0) groups = 1;
  const std::size_t count = load.size() / static_cast<std::size_t>(groups);
  const auto of_group = [groups](std::int64_t whole) { return static_cast<std::size_t>(whole / groups); };
  const auto slots = (static_cast<std::int64_t>(load.size()) + redundant) / ranks;
  ExpertPlacement packed{ranks, std::vector<std::int32_t>(static_cast<std::size_t>(slots * ranks)),
                         std::vector<std::int32_t>(load.size(), 1)};
  for (std::size_t g = 0; g < static_cast<std::size_t>(groups); ++g)
    pack_group(load, g * count, count, of_group(redundant), g * of_group(ranks), of_group(ranks), packed);
  // Without copies ranks have as many experts each only where those divide.
  if (static_cast<std::int64_t>(load.size()) % ranks != 0) return packed;
  ExpertPlacement own = own_copies(load, ranks, redundant);
  return fullest(packed, load) <= fullest(own, load) ? packed : own;
}

}  // namespace plumbline::model
