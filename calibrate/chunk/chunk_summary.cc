#include "calibrate/chunk/chunk_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "calibrate/chunk/detail/chunk_layout.h"
#include "calibrate/chunk/intervals.h"

namespace plumbline::calibrate {
namespace {

using detail::ChunkLayout;
using model::OperatorClass;
using model::Phase;
using model::Section;
using Product = ChunkSummary::Product;
using Span = ChunkSummary::Span;

struct ProductName {
  std::string name, kind;
};

// The few tens of tiny kernels that choose the experts are one operator of the prediction, and elementwise kernels and
// copies to a profiler; what assembles heads is half copy, half elementwise. One row holds them all.
std::string joined_row(std::string_view row) {
  constexpr std::string_view joined = "elementwise, copy, router";
  return std::string(row == "elementwise" || row == "copy" || row == "router" ? joined : row);
}

std::string row_on(std::string_view row, bool communication_stream) {
  if (!communication_stream || detail::is_communication(row)) return joined_row(row);
  return joined_row(row) + ", communication stream";
}

// Collects kernels of either kind into what both summaries share.
class Collector {
 public:
  void add(const Interval& when, const std::string& row, bool communication_stream) {
    (communication_stream ? communication_ : compute_).push_back(when);
    rows_[row].push_back(when);
  }
  void add_product(const ProductName& product, int slot, const Interval& when) {
    products_[{product.name, product.kind, slot}].push_back(when);
    const auto same = [&](const Product& p) { return p.name == product.name && p.kind == product.kind; };
    if (std::ranges::none_of(order_, same)) order_.push_back({product.name, product.kind, {}});
  }

  void finish(ChunkSummary& summary) {
    summary.compute_busy = covered(compute_);
    summary.communication_busy = covered(communication_);
    summary.exposed_communication = covered_without(communication_, compute_);
    for (const auto& [row, intervals] : rows_) summary.classes.push_back({row, covered(intervals)});
    std::ranges::stable_sort(summary.classes, std::greater<>{}, &ChunkSummary::ClassTime::seconds);
    for (Product& product : order_) {
      for (int slot = 0; slot < summary.slots; ++slot) {
        const auto found = products_.find({product.name, product.kind, slot});
        if (found != products_.end()) product.slots.push_back(covered(found->second));
      }
      summary.products.push_back(std::move(product));
    }
  }

 private:
  std::vector<Interval> compute_, communication_;
  std::map<std::string, std::vector<Interval>> rows_;
  std::map<std::tuple<std::string, std::string, int>, std::vector<Interval>> products_;
  std::vector<Product> order_;  // as they first ran
};

std::vector<double> periods_of(const std::vector<Span>& spans, int slots) {
  std::vector<std::optional<double>> ends(static_cast<std::size_t>(slots));
  for (const Span& span : spans)
    if (span.name == "attn(B)" && span.slot < slots) ends.at(static_cast<std::size_t>(span.slot)) = span.end;
  std::vector<double> periods;
  for (std::size_t slot = 1; slot < ends.size(); ++slot) {
    if (!ends[slot] || !ends[slot - 1]) return {};
    periods.push_back(*ends[slot] - *ends[slot - 1]);
  }
  return periods;
}

void replace(std::string& text, std::string_view from, std::string_view to) {
  if (const std::size_t at = text.find(from); at != std::string::npos) text.replace(at, from.size(), to);
}

// "ex_gateup:g_dgrad:34688x7168x4096" is dgrad of experts_gate_up: published notes abbreviate the operators' names.
std::optional<ProductName> product_of(std::string_view note) {
  const std::size_t first = note.find(':');
  const std::size_t second = note.find(':', first + 1);
  if (first == std::string_view::npos || second == std::string_view::npos) return std::nullopt;
  ProductName product{std::string(note.substr(0, first)), std::string(note.substr(first + 1, second - first - 1))};
  if (product.name.starts_with("ex_")) product.name.replace(0, 2, "experts");
  if (product.name.starts_with("sh_")) product.name.replace(0, 2, "shared");
  replace(product.name, "gateup", "gate_up");
  if (product.kind.starts_with("g_")) product.kind.erase(0, 2);
  product.kind = product.kind.substr(0, product.kind.find('_'));
  return product;
}

ProductName product_of(const sim::ChunkKernel& kernel) {
  ProductName product{kernel.name, kernel.recomputed ? "recompute" : "fprop"};
  for (const std::string_view kind : {"dgrad", "wgrad"}) {
    if (!kernel.name.ends_with(fmt::format("_{}", kind))) continue;
    product = {kernel.name.substr(0, kernel.name.size() - kind.size() - 1), std::string(kind)};
  }
  return product;
}

std::string_view exchange_row(const sim::ChunkKernel& kernel) {
  if (kernel.name != "transfer") return kernel.name;  // notify, layout
  // The gradient of combine is sent like a dispatch, that of dispatch like a combine.
  const bool dispatches = (kernel.section == Section::dispatch) == (kernel.phase == Phase::F);
  return dispatches ? "dispatch" : "combine";
}

std::string_view row_of(const sim::ChunkKernel& kernel) {
  switch (kernel.kind) {
    case OperatorClass::gemm:
      return "GEMM";
    case OperatorClass::weight_gradient_gemm:
      return "weight-gradient GEMM";
    case OperatorClass::norm:
    case OperatorClass::norm_gradient:
      return "norm";
    case OperatorClass::cast:
    case OperatorClass::cast_e5m6:
    case OperatorClass::cast_transpose:
    case OperatorClass::gather_transpose:
      return "cast";
    case OperatorClass::swiglu:
    case OperatorClass::swiglu_gradient:
      return "swiglu";
    case OperatorClass::permute:
    case OperatorClass::reduce:
      return "permute";
    case OperatorClass::cross_entropy:
      return "loss";
    case OperatorClass::exchange:
      return exchange_row(kernel);
    default:
      return model::to_string(kernel.kind);
  }
}

// The kernels that lay out a cast's scales belong to its operator (model/graph/attributes.h, CastAttributes): they are
// counted with casts, whatever row the file of classes shows them in.
std::string_view row_of(const ChunkKernel& kernel, std::string_view row) {
  return kernel.class_name == "scale_transpose" ? "cast" : row;
}

double number_after(std::string_view note, std::string_view key) {
  const std::string_view text = detail::note_value(note, key);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

double Product::mean() const {
  return std::accumulate(slots.begin(), slots.end(), 0.0) / static_cast<double>(std::max<std::size_t>(1, slots.size()));
}

ChunkSummary summarise(const Chunk& chunk, const KernelClasses& classes) {
  const ChunkLayout layout = detail::layout_of(chunk, classes);
  ChunkSummary summary;
  summary.slots = layout.slots;
  Collector collector;
  double first = std::numeric_limits<double>::infinity();
  double last = 0;
  for (std::size_t i = 0; i < chunk.kernels.size(); ++i) {
    const ChunkKernel& kernel = chunk.kernels[i];
    first = std::min(first, kernel.start);
    last = std::max(last, kernel.start + kernel.duration);
    collector.add(layout.occupied[i], row_on(row_of(kernel, layout.rows[i]), layout.communicates[i]),
                  layout.communicates[i]);
    const int slot = detail::slot_of(kernel, layout.slots);
    const auto product = product_of(kernel.note);
    if (product && slot >= 0) collector.add_product(*product, slot, layout.occupied[i]);
  }
  summary.seconds = last - first;
  summary.spans = detail::spans_of(chunk, layout);
  summary.periods = periods_of(summary.spans, summary.slots);
  collector.finish(summary);
  return summary;
}

ChunkSummary summarise(const sim::ChunkRun& run) {
  ChunkSummary summary;
  Collector collector;
  for (const sim::ChunkKernel& kernel : run.kernels) {
    summary.slots = std::max(summary.slots, kernel.slot + 1);
    if (model::on_host_link(kernel.stream)) continue;  // no kernels: they run on copy engines
    const bool communicates = kernel.stream == model::Stream::communication;
    collector.add({kernel.start, kernel.end}, row_on(row_of(kernel), communicates), communicates);
    if (kernel.kind == OperatorClass::gemm || kernel.kind == OperatorClass::weight_gradient_gemm)
      collector.add_product(product_of(kernel), kernel.slot, {kernel.start, kernel.end});
  }
  summary.seconds = run.seconds;
  collector.finish(summary);
  for (const sim::ChunkSpan& span : run.spans) summary.spans.push_back({span.name, span.slot, span.start, span.end});
  summary.periods = run.slot_periods;
  return summary;
}

sim::ChunkRank rank_of(const Chunk& chunk, const KernelClasses& classes, bool measured_waits) {
  const ChunkLayout layout = detail::layout_of(chunk, classes);
  sim::ChunkRank rank;
  rank.slots.resize(static_cast<std::size_t>(layout.slots));
  // Meetings of each slot in order of start: of combine(B), dispatch(B) and of dispatch(F), combine(F).
  std::vector<std::vector<const ChunkKernel*>> forward(rank.slots.size());
  std::vector<std::vector<const ChunkKernel*>> backward(rank.slots.size());
  for (std::size_t i = 0; i < chunk.kernels.size(); ++i) {
    const ChunkKernel& kernel = chunk.kernels[i];
    const int slot = detail::slot_of(kernel, layout.slots);
    if (slot < 0) continue;
    const bool is_forward = kernel.phase == "F";
    sim::ChunkRank::Slot& entry = rank.slots.at(static_cast<std::size_t>(slot));
    double& rows = is_forward ? entry.forward_rows : entry.backward_rows;
    if (rows == 0) rows = number_after(kernel.note, "rows");
    if (layout.rows[i] == "notify")
      (is_forward ? forward : backward).at(static_cast<std::size_t>(slot)).push_back(&kernel);
  }
  for (std::size_t slot = 0; measured_waits && slot < rank.slots.size(); ++slot) {
    for (auto* meetings : {&forward.at(slot), &backward.at(slot)})
      std::ranges::stable_sort(*meetings, {}, [](const ChunkKernel* kernel) { return kernel->start; });
    if (forward.at(slot).size() != 2 || backward.at(slot).size() != 2) continue;
    rank.slots[slot].waits = {backward.at(slot)[0]->duration, forward.at(slot)[0]->duration,
                              backward.at(slot)[1]->duration, forward.at(slot)[1]->duration};
  }
  return rank;
}

}  // namespace plumbline::calibrate
