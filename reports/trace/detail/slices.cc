#include "reports/trace/detail/slices.h"

#include <fmt/compile.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "reports/text/table.h"

namespace plumbline::reports {

namespace {

using model::Direction;
using model::Span;
using model::Stream;

constexpr std::array<std::string_view, 10> track_names = {
    "step",       "slots",   "compute",   "communication", "weight gradient",
    "collective", "to host", "from host", "pipeline",      "optimizer"};

// Messages and what runs outside of slots have no phases of their own: they are kernels.
bool is_kernel(const Span& span) {
  return span.depth == model::kernel_depth || span.stream == Stream::pipeline || span.stream == Stream::optimizer;
}

std::string_view category(const Span& span) {
  if (span.depth == model::slot_depth) return "slot";
  if (is_kernel(span)) return model::on_host_link(span.stream) ? "gpu_memcpy" : "kernel";
  if (model::on_host_link(span.stream)) return "host";
  if (span.stream == Stream::communication) return "communication";
  return span.stream == Stream::collective ? "collective" : "phase";
}

// Returns how NCCL's kernels of this class are called; of other communication, the start of their names.
std::string_view communication_prefix(std::string_view class_name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> names = {
      {{"all_reduce", "ncclKernel_AllReduce: "},
       {"all_gather", "ncclKernel_AllGather: "},
       {"reduce_scatter", "ncclKernel_ReduceScatter: "},
       {"point_to_point", "ncclKernel_SendRecv: "}}};
  const auto* found = std::ranges::find(names, class_name, &std::pair<std::string_view, std::string_view>::first);
  return found == names.end() ? "ncclKernel: " : found->second;
}

bool communicates(const Span& span) {
  return span.stream == Stream::communication || span.stream == Stream::collective || span.stream == Stream::pipeline ||
         (span.stream == Stream::optimizer && span.work >= 0);
}

std::string_view name_prefix(const Span& span, const model::Timeline& timeline) {
  if (!is_kernel(span)) return "";
  if (span.stream == Stream::to_host) return "Memcpy DtoH: ";
  if (span.stream == Stream::from_host) return "Memcpy HtoD: ";
  if (!communicates(span)) return "";
  return communication_prefix(span.work < 0 ? "" : timeline.works[static_cast<std::size_t>(span.work)].class_name);
}

std::string_view text_of(Direction direction) {
  constexpr std::array<std::string_view, 6> texts = {
      "", "forward", "backward", "input gradient", "weight gradient", "forward and backward"};
  return texts[static_cast<std::size_t>(direction)];
}

// Returns the layers of a stage as "27-30"; blocks without one (embedding, head) are left out.
std::string layer_range(const std::vector<std::int32_t>& layers) {
  std::int32_t first = -1, last = -1;
  for (const std::int32_t layer : layers) {
    if (layer < 0) continue;
    first = first < 0 ? layer : std::min(first, layer);
    last = std::max(last, layer);
  }
  if (first < 0) return "";
  return first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
}

std::string work_members(const model::SpanWork& work) {
  std::string text;
  if (!work.class_name.empty()) text += fmt::format(R"("class":"{}",)", escape_json(work.class_name));
  if (work.flops > 0) text += fmt::format(R"("flops":{:.0f},)", work.flops);
  if (work.bytes > 0) text += fmt::format(R"("bytes":{:.0f},)", work.bytes);
  return text;
}

}  // namespace

std::string_view track_name(std::size_t track) { return track_names[track]; }

std::size_t track_of(const Span& span) {
  if (span.depth == model::slot_depth && span.stream == Stream::compute) return 1;
  return 2 + static_cast<std::size_t>(span.stream);
}

SliceTime slice_time(const Span& span) {
  constexpr std::int64_t ps_per_ns = 1000;
  return {span.start_ps / ps_per_ns, span.end_ps() / ps_per_ns};
}

Slices::Slices(const model::Timeline& timeline) : timeline_(timeline) {
  for (const std::string& name : timeline.names) names_.push_back(escape_json(name));
  for (const model::SpanWork& work : timeline.works) works_.push_back(work_members(work));
  for (const auto& layers : timeline.stage_layers) stage_layers_.push_back(layer_range(layers));
}

void Slices::add(TraceOutput& output, const Span& span, std::int64_t process) {
  const SliceTime time = slice_time(span);
  const std::int64_t length = time.end_ns - time.start_ns;
  const std::size_t track = track_of(span);
  output.next_event();
  fmt::format_to(
      output.end(),
      FMT_COMPILE(R"({{"ph":"X","cat":"{}","name":"{}{}","pid":{},"tid":{},"ts":{}.{:03},"dur":{}.{:03},"args":{{)"),
      category(span), name_prefix(span, timeline_), names_[span.name], process, track, time.start_ns / 1000,
      time.start_ns % 1000, length / 1000, length % 1000);
  const auto number = [&output](std::string_view key, std::int64_t value) {
    if (value >= 0) fmt::format_to(output.end(), FMT_COMPILE(R"("{}":{},)"), key, value);
  };
  const auto layers = [&](std::string_view key, std::int32_t stage) {
    const auto index = static_cast<std::size_t>(stage);
    if (stage >= 0 && index < stage_layers_.size() && !stage_layers_[index].empty())
      fmt::format_to(output.end(), FMT_COMPILE(R"("{}":"{}",)"), key, stage_layers_[index]);
  };
  number("stage", span.stage);
  number("chunk", span.chunk);
  if (span.direction != Direction::none)
    fmt::format_to(output.end(), FMT_COMPILE(R"("direction":"{}",)"), text_of(span.direction));
  if (span.depth == model::slot_depth) layers("layers", span.stage);
  number("layer", span.layer);
  number("micro_batch", span.micro_batch);
  number("backward_stage", span.overlapped_stage);
  layers("backward_layers", span.overlapped_stage);
  number("backward_micro_batch", span.overlapped_micro_batch);
  number("to_rank", span.peer);
  if (span.work >= 0) output.add(works_[static_cast<std::size_t>(span.work)]);
  if (is_kernel(span)) {
    number("device", process);
    number("stream", static_cast<std::int64_t>(track));
    number("correlation", ++correlation_);
  }
  output.end_members();
  output.add("}");
}

}  // namespace plumbline::reports
