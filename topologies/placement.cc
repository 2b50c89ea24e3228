#include "topologies/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <filesystem>
#include <numeric>
#include <optional>
#include <utility>

#include "model/base/integers.h"
#include "model/base/random.h"
#include "model/base/text.h"
#include "model/base/text_file.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"

namespace plumbline::topologies {
namespace {

using Gpus = std::vector<std::int64_t>;

constexpr std::string_view placement_key = "cluster.placement";

Gpus striped(std::int64_t gpus, std::int64_t gpus_per_node) {
  Gpus order;
  for (std::int64_t index = 0; index < gpus_per_node; ++index)
    for (std::int64_t gpu = index; gpu < gpus; gpu += gpus_per_node) order.push_back(gpu);
  return order;
}

Gpus random_nodes(std::int64_t gpus, std::int64_t gpus_per_node, std::uint64_t seed) {
  Gpus nodes(static_cast<std::size_t>(model::ceil_div(gpus, gpus_per_node)));
  std::iota(nodes.begin(), nodes.end(), 0);
  model::Random random(seed);
  for (std::size_t left = nodes.size(); left > 1; --left)
    std::swap(nodes[left - 1], nodes[static_cast<std::size_t>(random.next() % left)]);
  Gpus order;
  for (const std::int64_t node : nodes)
    for (std::int64_t gpu = node * gpus_per_node; gpu < std::min(gpus, (node + 1) * gpus_per_node); ++gpu)
      order.push_back(gpu);
  return order;
}

model::Result<Gpus> from_file(const std::string& path, std::int64_t gpus) {
  const auto text = TRY(model::read_text_file(path));
  const auto wrong = [&](int line, std::string message, std::string hint) {
    return model::wrong_input_at(path, line, "", std::move(message), std::move(hint));
  };
  Gpus order;
  std::vector<int> line_of(static_cast<std::size_t>(gpus), 0);
  int line = 0;
  for (const std::string_view text_of_line : model::lines_of(text)) {
    ++line;
    const std::string_view word = model::trimmed(text_of_line);
    if (word.empty() || word.front() == '#') continue;
    const auto gpu = model::parse_number<std::int64_t>(word);
    if (!gpu) return wrong(line, fmt::format("'{}' is not the number of a GPU", word), "write one number on each line");
    if (*gpu < 0 || *gpu >= gpus)
      return wrong(line, fmt::format("there is no GPU {}", *gpu), fmt::format("the cluster has 0 to {}", gpus - 1));
    int& first = line_of[static_cast<std::size_t>(*gpu)];
    if (first > 0)
      return wrong(line, fmt::format("GPU {} is given twice", *gpu), fmt::format("first on line {}", first));
    first = line;
    order.push_back(*gpu);
  }
  if (static_cast<std::int64_t>(order.size()) < gpus)
    return wrong(0, fmt::format("rank {} has no GPU", order.size()), fmt::format("the plan has {} ranks", gpus));
  return order;
}

// Returns over how many consecutive ranks an expert group reaches.
std::int64_t expert_span(const model::Plan& plan) {
  const model::RankGroup group = model::expert_group(plan.parallelism);
  return group.ranks > 1 ? group.ranks * group.stride : 1;
}

// Returns nodes of which only so many GPUs are used, with their NICs, or what is wrong with these.
model::Result<FabricShape> nodes_of(const FabricShape& shape, std::int64_t used) {
  const std::int64_t node = shape.gpus_per_node;
  if (used == node) return shape;
  if (used > node) return model::wrong_input("node.gpus", "it has no more");
  if (shape.nics * used % node != 0)
    return model::wrong_input("node.nics", fmt::format("they do not have whole NICs of its {}", shape.nics));
  FabricShape nodes = shape;
  nodes.gpus_per_node = used;
  nodes.nics = shape.nics * used / node;
  // The links of a mesh to idle GPUs carry nothing.
  if (shape.interconnect == Interconnect::mesh)
    nodes.gpu_bandwidth = shape.peer_bandwidth() * static_cast<double>(used - 1);
  if (const auto fault = find_fault(nodes)) return tl::unexpected(*fault);
  return nodes;
}

// Returns the nodes with the most GPUs that hold whole groups: a multiple of the tensor degree that is one of the
// expert group, or divides it.
FabricShape nodes_of_whole_groups(const FabricShape& shape, const model::Plan& plan) {
  const std::int64_t node = shape.gpus_per_node, expert = expert_span(plan);
  const std::int64_t least = expert <= node ? 1 : node - node / 8;
  for (std::int64_t used = node; used >= least; --used) {
    if (used % plan.parallelism.tensor != 0 || (expert <= node ? used % expert : expert % used) != 0) continue;
    const auto nodes = nodes_of(shape, used);
    if (nodes && !find_fault(*nodes, plan.cluster.gpus)) return *nodes;
  }
  return shape;
}

// Returns "use 8 or 12": the nearest numbers of GPUs that can be used of a node.
std::string usable_numbers(const FabricShape& shape, std::int64_t refused) {
  const std::int64_t node = shape.gpus_per_node;
  std::int64_t below = std::min(refused - 1, node), above = std::max<std::int64_t>(refused, 0) + 1;
  while (below > 0 && !nodes_of(shape, below)) --below;
  while (above <= node && !nodes_of(shape, above)) ++above;
  if (below < 1 || above > node) return fmt::format("use {}", below < 1 ? above : below);
  return fmt::format("use {} or {}", below, above);
}

}  // namespace

Placement::Placement(Gpus gpu_of_rank) : gpus_(std::move(gpu_of_rank)), ranks_(gpus_.size()) {
  for (std::size_t rank = 0; rank < gpus_.size(); ++rank)
    ranks_[static_cast<std::size_t>(gpus_[rank])] = static_cast<std::int64_t>(rank);
}

model::Result<Placement> Placement::make(std::string_view rule, std::int64_t gpus, std::int64_t gpus_per_node) {
  const std::size_t colon = std::min(rule.find(':'), rule.size());
  const std::string_view kind = rule.substr(0, colon);
  const std::string_view detail = rule.substr(std::min(colon + 1, rule.size()));
  if (rule == "contiguous") {
    Gpus order(static_cast<std::size_t>(gpus));
    std::iota(order.begin(), order.end(), 0);
    return Placement(std::move(order));
  }
  if (rule == "striped") return Placement(striped(gpus, gpus_per_node));
  if (kind == "random") {
    const auto seed = model::parse_number<std::uint64_t>(detail);
    if (!seed)
      return model::wrong_input(std::string(placement_key), fmt::format("'{}' has no seed", rule),
                                "write random:1, for example");
    return Placement(random_nodes(gpus, gpus_per_node, *seed));
  }
  if (kind == "file" && !detail.empty())
    return from_file(std::string(detail), gpus).map([](Gpus&& order) { return Placement(std::move(order)); });
  return model::wrong_input(std::string(placement_key), fmt::format("unknown placement '{}'", rule),
                            model::did_you_mean_before(kind, {"contiguous", "striped", "random", "file"},
                                                       "use contiguous, striped, random:SEED or file:PATH"));
}

model::Result<Placement> placement_of(const model::Plan& plan, std::int64_t gpus_per_node) {
  namespace fs = std::filesystem;
  constexpr std::string_view file = "file:";
  std::string rule = plan.cluster.placement.value_or("contiguous");
  const bool relative = rule.starts_with(file) && fs::path(rule.substr(file.size())).is_relative();
  if (relative) rule = std::string(file) + (fs::path(plan.file).parent_path() / rule.substr(file.size())).string();
  auto placement = Placement::make(rule, plan.cluster.gpus, gpus_per_node);
  if (placement || !placement.error().file.empty()) return placement;
  const model::Error& error = placement.error();
  return tl::unexpected(model::plan_error(plan, error.kind, error.key, error.message, error.hint));
}

model::Result<void> check_domain(const FabricShape& shape, const model::Plan& plan) {
  const std::optional<std::int64_t> stated = plan.cluster.domain_gpus;
  if (!stated) return {};
  const auto refuse = [&](std::string message, std::string hint) -> model::Result<void> {
    return tl::unexpected(
        model::plan_error(plan, model::ErrorKind::input, "cluster.domain_gpus", std::move(message), std::move(hint)));
  };
  const std::int64_t node = shape.gpus_per_node;
  if (const auto nodes = nodes_of(shape, *stated); !nodes)
    return refuse(fmt::format("{} of the {} GPUs of a domain cannot be used: {}", *stated, node, nodes.error().message),
                  usable_numbers(shape, *stated));
  if (!shape.factors.empty() && *stated < std::min(node, plan.cluster.gpus))
    return refuse("the links that are changed are named for whole domains",
                  fmt::format("use {}, or change no links", node));
  return {};
}

FabricShape used_nodes(const FabricShape& shape, const model::Plan& plan) {
  const std::optional<std::int64_t> stated = plan.cluster.domain_gpus;
  if (plan.cluster.gpus <= stated.value_or(shape.gpus_per_node)) return shape;
  if (stated) {
    auto nodes = nodes_of(shape, *stated);
    assert(nodes && "check_domain() refuses other numbers");
    return *std::move(nodes);
  }
  return plan.cluster.placement || !shape.factors.empty() ? shape : nodes_of_whole_groups(shape, plan);
}

std::int64_t expert_node_gpus(const FabricShape& shape, const model::Plan& plan) {
  const std::int64_t node = used_nodes(shape, plan).gpus_per_node, span = expert_span(plan);
  if (span > node || node % span == 0 || plan.cluster.gpus <= node) return node;
  std::int64_t least = span;
  for (std::int64_t first = 0; first < plan.cluster.gpus; first += span) {
    const std::int64_t before_the_end = std::min(span, node - first % node);
    least = std::min(least, std::max(before_the_end, span - before_the_end));
  }
  while (span % least != 0) --least;
  return least;
}

std::vector<std::string> placement_warnings(const FabricShape& shape, const model::Plan& plan) {
  const std::int64_t gpus = plan.cluster.gpus, node = shape.gpus_per_node;
  const std::int64_t used = used_nodes(shape, plan).gpus_per_node, expert = expert_span(plan);
  std::vector<std::string> sentences;
  if (used < node) {
    const std::int64_t nodes = model::ceil_div(gpus, used), idle = nodes * node - gpus;
    sentences.push_back(fmt::format(
        "{} of the {} GPUs of a node are used, {}: the {} nodes have {} more GPUs, {:.1f} % of those that are used and "
        "priced (cluster.placement = \"contiguous\" fills the nodes)",
        used, node,
        plan.cluster.domain_gpus ? "as cluster.domain_gpus states"
                                 : "so that no node holds uneven parts of tensor and expert groups",
        nodes, idle, 100 * static_cast<double>(idle) / static_cast<double>(gpus)));
  }
  const std::pair<std::string_view, std::int64_t> groups[] = {{"tensor", plan.parallelism.tensor}, {"expert", expert}};
  for (const auto& [name, span] : groups)
    if (gpus > node && span > 1 && span <= node && used % span != 0 &&
        !plan.cluster.placement.value_or("").starts_with("file:"))
      sentences.push_back(fmt::format(
          "{} groups of {} GPUs do not divide the {} of a node: some cross to another node, at {:.0f} GB/s instead of "
          "{:.0f} a GPU",
          name, span, used, shape.nic_bandwidth * static_cast<double>(shape.nics) / static_cast<double>(node) / 1e9,
          shape.gpu_bandwidth / 1e9));
  return sentences;
}

}  // namespace plumbline::topologies
