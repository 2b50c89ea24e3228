#include <simdjson.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "calibrate/chunk/kernel_timeline.h"
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

namespace {

constexpr double ns_per_s = 1e9;

std::int64_t end_of(const GpuWork& work) { return work.start_ns + work.duration_ns; }

// The work of a device by end, to find what a stream waited for.
class Ends {
 public:
  Ends(const Trace& trace, const std::vector<std::size_t>& work) : trace_(trace), work_(work) {
    for (std::size_t i = 0; i < work.size(); ++i) order_.push_back(i);
    std::ranges::stable_sort(order_, {}, [this](std::size_t i) { return end(i); });
  }

  // Returns the piece of another stream that ended last in [from, to].
  std::optional<std::size_t> last(std::int64_t from, std::int64_t to, int stream) const {
    auto at = std::ranges::upper_bound(order_, to, {}, [this](std::size_t i) { return end(i); });
    while (at != order_.begin() && end(*--at) >= from)
      if (trace_.work[work_[*at]].stream != stream) return *at;
    return std::nullopt;
  }

 private:
  std::int64_t end(std::size_t i) const { return end_of(trace_.work[work_[i]]); }

  const Trace& trace_;
  const std::vector<std::size_t>& work_;
  std::vector<std::size_t> order_;
};

}  // namespace

std::vector<Wait> waits_of(const Trace& trace, const std::vector<std::size_t>& work,
                           const std::vector<bool>& communicates) {
  const std::int64_t limit = std::llround(launch_gap_limit * ns_per_s);
  const Ends ends(trace, work);
  std::vector<std::optional<std::int64_t>> launched(work.size());
  for (const Moment& moment : launch_moments(trace, work)) launched[moment.asker] = moment.time_ns;
  std::map<int, std::int64_t> idle_since;  // by stream
  std::vector<Wait> waits(work.size());
  for (std::size_t i = 0; i < work.size(); ++i) {
    const GpuWork& piece = trace.work[work[i]];
    const auto [previous, first] = idle_since.try_emplace(piece.stream, end_of(piece));
    const std::int64_t idle = first ? piece.start_ns : previous->second;
    previous->second = std::max(previous->second, end_of(piece));
    if (piece.start_ns - idle <= limit) continue;
    waits[i].length_ns = piece.start_ns - idle;
    const auto other = ends.last(piece.start_ns - limit, piece.start_ns, piece.stream);
    if (launched[i] && *launched[i] + limit >= piece.start_ns) {
      waits[i].cause = "host";
    } else if (other && end_of(trace.work[work[*other]]) > idle) {
      waits[i].cause = communicates[*other] ? "communication" : "dependency";
    } else if (launched[i]) {
      waits[i].cause = *launched[i] > idle ? "host" : "dependency";
    }
  }
  return waits;
}

}  // namespace plumbline::calibrate
