#include <simdjson.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "calibrate/import/kineto/detail/enclosing.h"
#include "calibrate/import/kineto/detail/work.h"

namespace plumbline::calibrate {
namespace {

using Extents = std::vector<std::int64_t>;

// Returns the inputs that have at least two dimensions; an input that is a list of tensors has none.
std::vector<Extents> matrices(std::string_view dims) {
  std::vector<Extents> found;
  simdjson::dom::parser parser;
  simdjson::dom::array inputs;
  if (parser.parse(dims.data(), dims.size()).get(inputs) != simdjson::SUCCESS) return found;
  for (const simdjson::dom::element& input : inputs) {
    simdjson::dom::array list;
    if (input.get(list) != simdjson::SUCCESS) continue;
    Extents extents;
    for (const simdjson::dom::element& item : list) {
      std::int64_t extent = 0;
      if (item.get(extent) == simdjson::SUCCESS && extent > 0) extents.push_back(extent);
    }
    if (extents.size() == list.size() && extents.size() >= 2) found.push_back(std::move(extents));
  }
  return found;
}

// Returns the product of all extents but the last `count`.
std::int64_t leading(const Extents& extents, std::size_t count) {
  std::int64_t product = 1;
  for (std::size_t i = 0; i + count < extents.size(); ++i) product *= extents[i];
  return product;
}

}  // namespace

std::optional<GemmShape> gemm_shape(std::string_view operation, std::string_view dims) {
  std::vector<Extents> inputs = matrices(dims);
  const bool adds =
      operation.find("addmm") != std::string_view::npos || operation.find("baddbmm") != std::string_view::npos;
  if (adds && inputs.size() > 2) inputs.erase(inputs.begin());
  if (inputs.size() < 2) return std::nullopt;
  const Extents &a = inputs[0], &b = inputs[1];
  const bool transposed = operation.find("inear") != std::string_view::npos;
  const std::int64_t k = a.back(), n = transposed ? b[b.size() - 2] : b.back();
  if (k != (transposed ? b.back() : b[b.size() - 2])) return std::nullopt;
  if (b.size() == 2) return GemmShape{leading(a, 1), n, k, 1};
  const std::int64_t groups = leading(b, 2);
  if (operation.find("grouped") != std::string_view::npos) return GemmShape{a.front() / groups, n, k, groups};
  return a.size() == 2 ? GemmShape{a.front(), n, k, groups} : GemmShape{a[a.size() - 2], n, k, groups};
}

std::vector<std::optional<GemmShape>> gemm_shapes(const Trace& trace, const std::vector<std::size_t>& work,
                                                  const std::vector<bool>& multiplies) {
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < trace.operations.size(); ++i) {
    const Operation& operation = trace.operations[i];
    if (operation.dims != 0) ranges.push_back({operation.start_ns, operation.end_ns, operation.thread, i});
  }
  const std::vector<std::size_t> around = innermost(std::move(ranges), launch_moments(trace, work), work.size());
  std::unordered_map<std::uint64_t, std::optional<GemmShape>> known;  // by name and dims
  std::vector<std::optional<GemmShape>> shapes(work.size());
  std::unordered_set<std::size_t> taken;
  for (std::size_t i = 0; i < work.size(); ++i) {
    if (around[i] == no_range || !multiplies[i] || !taken.insert(around[i]).second) continue;
    const Operation& operation = trace.operations[around[i]];
    constexpr int bits = 32;
    const auto [shape, fresh] = known.try_emplace(std::uint64_t{operation.name} << bits | operation.dims);
    if (fresh) shape->second = gemm_shape(trace.names.text(operation.name), trace.names.text(operation.dims));
    shapes[i] = shape->second;
  }
  return shapes;
}

}  // namespace plumbline::calibrate
