// These rules set the pipeline: virtual stages and the layers of each stage.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <utility>

#include "model/base/text.h"
#include "model/megatron/rules.h"
#include "model/megatron/shell/shell.h"
#include "model/plan/layout.h"
#include "model/plan/stage_split.h"
#include "model/schedule/schedule.h"

namespace plumbline::model::megatron {
namespace {

constexpr std::size_t kLongest = 1'000'000;

// Removes "*N" at the front of the rest and returns N; 1 when there is none, nothing when N is no number.
std::optional<std::size_t> take_times(std::string_view& rest) {
  if (!rest.starts_with('*')) return 1;
  std::size_t end = 1;
  while (end < rest.size() && std::isdigit(static_cast<unsigned char>(rest[end])) != 0) ++end;
  const auto number = integer(rest.substr(1, end - 1));
  rest.remove_prefix(end);
  if (!number || *number < 0 || static_cast<std::size_t>(*number) > kLongest) return std::nullopt;
  return static_cast<std::size_t>(*number);
}

// Returns the text with repetitions and brackets expanded.
std::optional<std::string> write_out(std::string_view text) {
  std::string flat;
  while (!text.empty()) {
    const char symbol = text.front();
    std::string item(1, symbol);
    if (symbol == '(') {
      const std::size_t end = text.find(')');
      if (end == std::string_view::npos || text.substr(1, end - 1).find('(') != std::string_view::npos)
        return std::nullopt;
      const auto inside = write_out(text.substr(1, end - 1));
      if (!inside) return std::nullopt;
      item = *inside;
      text.remove_prefix(end + 1);
    } else {
      text.remove_prefix(1);
      if (symbol == ',' || std::isspace(static_cast<unsigned char>(symbol)) != 0) continue;
      if (std::string_view("EtmL|").find(symbol) == std::string_view::npos) return std::nullopt;
    }
    const auto times = take_times(text);
    if (!times || flat.size() + item.size() * *times > kLongest) return std::nullopt;
    for (std::size_t i = 0; i < *times; ++i) flat += item;
  }
  return flat;
}

}  // namespace

std::optional<StageLayout> parse_layout(std::string_view text) {
  const auto flat = write_out(text);
  if (!flat) return std::nullopt;
  StageLayout layout{{0}};
  for (const char symbol : *flat) {
    if (symbol == '|') layout.counts.push_back(0);
    if (symbol == 't') ++layout.counts.back();
  }
  // "E", then layers, then "mL" or, on two stages, "m|L".
  std::string rest = *flat;
  const std::size_t first_m = std::min(rest.find('m'), rest.size()), bar = rest.rfind('|');
  const bool apart = first_m < bar && bar != std::string::npos;
  if (apart) {
    layout.elsewhere = first_m == 0 || rest[first_m - 1] != '|';
    rest.erase(bar, 1);
  }
  const bool ends = rest.size() > 1 && rest.front() == 'E' && rest.back() == 'L';
  layout.elsewhere = layout.elsewhere || !ends ||
                     rest.find_first_not_of("t|", 1) < std::min(first_m, rest.size() - 1) ||
                     rest.find_first_not_of('m', first_m) < rest.size() - 1;
  return layout;
}

std::string layout_text(const std::vector<std::int64_t>& counts, bool prediction) {
  const std::size_t last = counts.size() - 1;
  const std::size_t predicting = last > 1 && counts[last - 1] == 0 ? last - 1 : last;
  std::string text = "E";
  for (std::size_t stage = 0; stage < counts.size(); ++stage) {
    if (stage > 0) text += '|';
    if (counts[stage] > 0) text += fmt::format("t*{}", counts[stage]);
    if (prediction && stage == predicting) text += 'm';
  }
  return text + "L";
}

std::optional<std::vector<std::int64_t>> accounted_ends(std::int64_t layers, std::int64_t stages, bool embedding,
                                                        bool loss) {
  const std::int64_t all = layers + (embedding ? 1 : 0) + (loss ? 1 : 0);
  if (stages < 1 || all < stages || all % stages != 0) return std::nullopt;
  std::vector<std::int64_t> counts(static_cast<std::size_t>(stages), all / stages);
  if (embedding) --counts.front();
  if (loss) --counts.back();
  return counts;
}

std::optional<std::vector<std::int64_t>> uneven_ends(std::int64_t layers, std::int64_t pipeline,
                                                     std::int64_t virtual_stages, std::optional<std::int64_t> first,
                                                     std::optional<std::int64_t> last) {
  const std::int64_t others = pipeline - (first ? 1 : 0) - (last ? 1 : 0);
  const std::int64_t left = layers - first.value_or(0) - last.value_or(0);
  if (others < 0 || left < 0 || (others == 0 ? left != 0 : left % others != 0)) return std::nullopt;
  std::vector<std::int64_t> of_rank(static_cast<std::size_t>(pipeline), others > 0 ? left / others : 0);
  if (first) of_rank.front() = *first;
  if (last) of_rank.back() = *last;
  std::vector<std::int64_t> counts;
  for (std::int64_t chunk = 0; chunk < virtual_stages; ++chunk) {
    for (const std::int64_t held : of_rank) {
      if (held % virtual_stages != 0) return std::nullopt;
      counts.push_back(held / virtual_stages);
    }
  }
  return counts;
}

std::optional<std::vector<std::int64_t>> parse_noop_layers(std::string_view text) {
  std::vector<std::int64_t> layers;
  if (text.empty()) return layers;
  for (const std::string_view item : split_at(text, ',')) {
    const auto layer = integer(item);
    if (!layer || *layer < 0 || std::ranges::find(layers, *layer) != layers.end()) return std::nullopt;
    layers.push_back(*layer);
  }
  return layers;
}

namespace {

constexpr std::int64_t kMostStages = 1'000'000;
constexpr const char* embedding_counts = "--account-for-embedding-in-pipeline-split";
constexpr const char* loss_counts = "--account-for-loss-in-pipeline-split";

constexpr const char* noops = "--noop-layers";
constexpr const char* layer_pattern = "--hybrid-layer-pattern";
constexpr const char* group_size = "--microbatch-group-size-per-virtual-pipeline-stage";

std::int64_t virtual_stages(const RuleReader& in) {
  const std::int64_t pipeline = in.plan.parallelism.pipeline;
  if (const auto count = in.number("--num-virtual-stages-per-pipeline-rank")) return *count;
  const auto layers = in.number("--num-layers-per-virtual-pipeline-stage");
  if (!layers || *layers < 1 || pipeline < 1) return 1;
  const auto idle = parse_noop_layers(in.given.value(noops).value_or(""));
  const std::int64_t all = in.shape.layers + (idle ? static_cast<std::int64_t>(idle->size()) : 0) +
                           (in.given.has(embedding_counts) ? 1 : 0) + (in.given.has(loss_counts) ? 1 : 0);
  if (all / pipeline % *layers != 0) {
    in.refuse("--num-layers-per-virtual-pipeline-stage", "does not divide the layers of a rank");
    return 1;
  }
  return std::max<std::int64_t>(1, all / pipeline / *layers);
}

// Returns the kind of schedule that MindSpeed names: one whose stages lie in a V on the ranks.
const ScheduleKind* vee_schedule(const RuleReader& in) {
  const auto kind = find_schedule(in.given.value("--schedules-method").value_or(""));
  const ScheduleShape shape{.ranks = 2, .micro_batches = 8};
  const bool vee = kind && (*kind)->check(shape) && (*kind)->outline(shape).placement == Placement::vee;
  return vee ? *kind : nullptr;
}

// Returns the stages that layers are divided over; a V has two on each rank.
std::int64_t stages_of(const RuleReader& in) {
  const auto& plan = in.plan;
  return plan.parallelism.pipeline * (vee_schedule(in) != nullptr ? 2 : plan.schedule.virtual_stages);
}

// Sets the stages with their layers, as many of them on each rank; returns whether a plan has such ones.
bool take_counts(const RuleReader& in, std::string_view argument, const std::vector<std::int64_t>& counts) {
  auto& schedule = in.plan.schedule;
  const auto stages = static_cast<std::int64_t>(counts.size());
  schedule.virtual_stages = stages / in.plan.parallelism.pipeline;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    const bool predicts = in.shape.prediction_layers.value_or(0) > 0 && stage > 0 && stage + 2 == stages;
    if (counts[static_cast<std::size_t>(stage)] >= fewest_layers(stage, stages) || predicts) continue;
    in.note(argument, "has stages that hold nothing, which no plan has; layers are spread evenly");
    return false;
  }
  schedule.layers_per_stage = {counts};
  return true;
}

// Sets the stages of a hybrid model, which its pattern divides.
void read_pattern(const RuleReader& in, const HybridPattern& pattern) {
  const std::int64_t pipeline = in.plan.parallelism.pipeline;
  if (pipeline < 2 || static_cast<std::int64_t>(pattern.counts.size()) % pipeline != 0)
    return in.refuse(layer_pattern,
                     fmt::format("{} stages do not divide over {} pipeline ranks", pattern.counts.size(), pipeline));
  std::vector<std::int64_t> counts = pattern.counts;
  if (is_paired(pattern.layers)) {
    if (std::ranges::any_of(counts, [](std::int64_t count) { return count % 2 != 0; }))
      return in.note(layer_pattern, "a stage ends between attention and its MLP; layers are spread evenly");
    for (std::int64_t& count : counts) count /= 2;
  }
  take_counts(in, layer_pattern, counts);
}

void read_layout(const RuleReader& in, const std::string& layout) {
  const std::int64_t pipeline = in.plan.parallelism.pipeline;
  const auto parsed = parse_layout(layout);
  if (!parsed || pipeline < 1 || static_cast<std::int64_t>(parsed->counts.size()) % pipeline != 0) {
    return in.refuse("--pipeline-model-parallel-layout",
                     fmt::format("'{}' is no layout for {} pipeline ranks", layout, pipeline));
  }
  const std::vector<std::int64_t>& counts = parsed->counts;
  if (!take_counts(in, "--pipeline-model-parallel-layout", counts)) return;
  if (counts.size() > 2 && counts[counts.size() - 2] == 0)
    in.note("--pipeline-model-parallel-layout",
            "logits of the prediction modules are priced on their stage; Megatron computes them with the loss");
  if (parsed->elsewhere)
    in.note("--pipeline-model-parallel-layout",
            "the embedding is priced on the first stage, the loss on the last one, and the prediction modules there or "
            "on a stage of their own before it");
}

void read_ends(const RuleReader& in) {
  const auto first = in.number("--decoder-first-pipeline-num-layers");
  const auto last = in.number("--decoder-last-pipeline-num-layers");
  if (!first && !last) return;
  auto& schedule = in.plan.schedule;
  const auto counts = uneven_ends(in.shape.layers, in.plan.parallelism.pipeline, schedule.virtual_stages, first, last);
  if (counts) {
    schedule.layers_per_stage = {*counts};
  } else {
    in.refuse(first ? "--decoder-first-pipeline-num-layers" : "--decoder-last-pipeline-num-layers",
              "the other ranks cannot share the rest evenly");
  }
}

void read_accounts(const RuleReader& in, bool embedding, bool loss) {
  auto& schedule = in.plan.schedule;
  const std::int64_t stages = stages_of(in);
  if (const auto counts = accounted_ends(in.shape.layers, stages, embedding, loss)) {
    schedule.layers_per_stage = {*counts};
  } else {
    in.refuse(embedding ? embedding_counts : loss_counts,
              fmt::format("the layers with it do not divide over {} stages", stages));
  }
}

// Returns the micro-batches that take a chunk in turn: as many as ranks, Megatron's default, or the next number that
// the schedule has. The batch is read before.
std::int64_t group_of(const Plan& plan) {
  const auto& degrees = plan.parallelism;
  const auto kind = find_schedule(plan.schedule.kind);
  const double replica = static_cast<double>(degrees.tensor) * static_cast<double>(degrees.context) *
                         static_cast<double>(degrees.pipeline);
  const double data = std::max(1.0, std::floor(static_cast<double>(plan.cluster.gpus) / std::max(1.0, replica)));
  const double micro_batches =
      std::ceil(static_cast<double>(plan.batch.global_batch_size) /
                (data * static_cast<double>(std::max<std::int64_t>(1, plan.batch.micro_batch_size))));
  if (!kind || degrees.pipeline < 1 || micro_batches < 1 || micro_batches > kMostStages) return degrees.pipeline;
  const ScheduleShape shape = schedule_shape(plan, static_cast<std::int64_t>(micro_batches), **kind);
  return shape.micro_batch_group > 0 ? shape.micro_batch_group : degrees.pipeline;
}

void read_group(const RuleReader& in) {
  const auto given = in.number(group_size);
  if (!given) return;
  if (const std::int64_t group = group_of(in.plan); group != *given)
    in.note(group_size, fmt::format("groups of {} are priced", group));
}

// MindSpeed divides all layers over the stages, those that do nothing too.
void read_noops(const RuleReader& in, const std::vector<std::int64_t>& idle) {
  const std::int64_t all = in.shape.layers + static_cast<std::int64_t>(idle.size()), stages = stages_of(in);
  if (all % stages != 0)
    return in.refuse("--num-layers", fmt::format("{} layers do not divide over {} stages", all, stages));
  std::vector<std::int64_t> counts(static_cast<std::size_t>(stages), all / stages);
  for (const std::int64_t layer : idle) {
    if (layer >= all) return in.refuse(noops, fmt::format("layer {} is none of {}", layer, all));
    --counts[static_cast<std::size_t>(layer / (all / stages))];
  }
  for (std::int64_t stage = 0; stage < stages; ++stage)
    if (counts[static_cast<std::size_t>(stage)] < fewest_layers(stage, stages))
      return in.note(noops, "leaves a stage without layers, which no plan has; layers are spread evenly");
  in.plan.schedule.layers_per_stage = {counts};
}

// DeepSpeed balances stages by what the method counts, and does without a remainder.
bool read_partition(const RuleReader& in) {
  if (!in.given.has("--deepspeed") || in.given.has("--no-pipeline-parallel")) return false;
  if (in.given.value("--pp-partition-method").value_or("").find("embedding") == std::string::npos) return true;
  const auto counts = accounted_ends(in.shape.layers, stages_of(in), true, true);
  if (counts) in.plan.schedule.layers_per_stage = {*counts};
  return true;
}

void read_schedule(const RuleReader& in) {
  auto& schedule = in.plan.schedule;
  const std::int64_t pipeline = in.plan.parallelism.pipeline;
  schedule.virtual_stages = virtual_stages(in);
  const std::string method = in.given.value("--schedules-method").value_or("");
  const bool vee = vee_schedule(in) != nullptr;
  if (!method.empty() && !vee) in.note("--schedules-method", fmt::format("'{}' is priced as 1F1B", method));
  if (vee) schedule.kind = method;
  if (pipeline < 1 || schedule.virtual_stages < 1 || pipeline > kMostStages / schedule.virtual_stages) return;
  const std::string layout = in.given.value("--pipeline-model-parallel-layout").value_or("");
  const auto idle = parse_noop_layers(in.given.value(noops).value_or(""));
  if (!idle) return in.refuse(noops, fmt::format("'{}' is no list of layers", in.given.value(noops).value_or("")));
  const auto pattern = parse_hybrid_pattern(in.given.value(layer_pattern).value_or(""));
  const bool divided = pattern && pattern->counts.size() > 1;
  bool balanced = false;
  if (divided) {
    read_pattern(in, *pattern);
  } else if (!layout.empty()) {
    read_layout(in, layout);
  } else if (!idle->empty()) {
    read_noops(in, *idle);
  } else if (in.given.has(embedding_counts) || in.given.has(loss_counts)) {
    read_accounts(in, in.given.has(embedding_counts), in.given.has(loss_counts));
  } else if (read_partition(in)) {
    balanced = true;
  } else {
    read_ends(in);
  }
  // Megatron splits evenly where no argument gives another split; an even split needs no list.
  const std::int64_t stages = stages_of(in);
  StageLayers& layers = schedule.layers_per_stage;
  if (!divided && layout.empty() && idle->empty() && !balanced && layers.counts.empty() &&
      in.shape.layers % stages != 0)
    in.refuse("--num-layers", fmt::format("{} layers do not divide over {} stages", in.shape.layers, stages));
  if (layers.counts.empty() || layers.counts == even_layer_counts(in.shape.layers, stages))
    layers = {.even = stages > 1};
  const bool overlapped = in.given.has("--overlap-moe-expert-parallel-comm");
  if (vee) return;  // it overlaps forward and backward by itself
  if (schedule.virtual_stages > 1) {
    schedule.kind = overlapped ? "interleaved-overlap" : "interleaved";
    read_group(in);
  } else if (overlapped) {
    in.note("--overlap-moe-expert-parallel-comm", "is priced with virtual stages only");
  }
}

bool ends_say_it(const std::vector<std::int64_t>& counts) {
  for (std::size_t i = 2; i + 1 < counts.size(); ++i) {
    if (counts[i] != counts[1]) return false;
  }
  return counts.size() > 2 && counts.front() > 0 && counts.back() > 0;
}

// Writes that embedding or loss count as a layer, where that gives these numbers.
bool write_accounts(const RuleWriter& out, const std::vector<std::int64_t>& counts) {
  const auto stages = static_cast<std::int64_t>(counts.size());
  for (const auto& [embedding, loss] : {std::pair{true, false}, {false, true}, {true, true}}) {
    if (accounted_ends(out.shape.layers, stages, embedding, loss) != counts) continue;
    if (embedding) out.out.put_flag(embedding_counts);
    if (loss) out.out.put_flag(loss_counts);
    return true;
  }
  return false;
}

void write_layers(const RuleWriter& out, std::int64_t chunks) {
  const std::int64_t pipeline = out.plan.parallelism.pipeline, layers = out.shape.layers;
  const std::int64_t stages = pipeline * chunks;
  std::vector<std::int64_t> counts = out.plan.schedule.layers_per_stage.counts;
  if (static_cast<std::int64_t>(counts.size()) != stages) counts = even_layer_counts(layers, stages);
  if (!out.shape.pattern.empty()) {
    return out.out.put(layer_pattern,
                       hybrid_pattern_text(out.shape.pattern, counts, out.shape.prediction_layers.value_or(0)));
  }
  if (counts == even_layer_counts(layers, stages) && layers % stages == 0) return;
  if (chunks == 1 && ends_say_it(counts)) {
    out.out.put("--decoder-first-pipeline-num-layers", std::to_string(counts.front()));
    out.out.put("--decoder-last-pipeline-num-layers", std::to_string(counts.back()));
  } else if (!write_accounts(out, counts)) {
    out.out.put("--pipeline-model-parallel-layout", layout_text(counts, out.shape.prediction_layers.value_or(0) > 0));
  }
}

void write_schedule(const RuleWriter& out) {
  const auto& schedule = out.plan.schedule;
  const bool interleaved = schedule.kind.starts_with("interleaved");
  const std::int64_t chunks = interleaved ? schedule.virtual_stages : 1;
  if (out.plan.parallelism.pipeline > kMostStages / chunks) return;
  write_layers(out, chunks);
  // A layout's length gives the number of virtual stages, and Megatron accepts only one of both.
  if (chunks > 1 && !out.out.has("--pipeline-model-parallel-layout") && !out.out.has(layer_pattern)) {
    out.out.put("--num-virtual-stages-per-pipeline-rank", std::to_string(chunks));
  }
  if (const std::int64_t group = chunks > 1 ? group_of(out.plan) : 0; group > out.plan.parallelism.pipeline)
    out.out.put(group_size, std::to_string(group));
  if (chunks > 1 && schedule.kind == "interleaved-overlap") out.out.put_flag("--overlap-moe-expert-parallel-comm");
}

}  // namespace

Rule schedule_rule() { return {read_schedule, write_schedule}; }

}  // namespace plumbline::model::megatron
