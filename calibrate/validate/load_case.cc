#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "calibrate/chunk/chunk.h"
#include "calibrate/import/kernel_classes.h"
#include "calibrate/measurement/csv_table.h"
#include "calibrate/validate/case_evaluation.h"
#include "calibrate/validate/detail/case_rows.h"
#include "calibrate/validate/validation_case.h"
#include "model/base/error.h"
#include "model/base/table_reader.h"
#include "model/base/text.h"
#include "model/cost/communication_cost.h"
#include "model/graph/builder.h"
#include "model/program/program.h"

namespace plumbline::calibrate {
namespace {

using model::CoRunner;
using model::DataType;
using model::OneOperator;
using model::OperatorKind;

constexpr std::pair<std::string_view, OperatorKind> kinds[] = {
    {"cast", OperatorKind::cast}, {"norm", OperatorKind::rmsnorm}, {"norm_gradient", OperatorKind::rmsnorm_grad}};
constexpr std::pair<std::string_view, CoRunner> co_runners[] = {
    {"transfer", CoRunner::transferring}, {"wait", CoRunner::waiting}, {"gemm", CoRunner::computing}};

// Returns what a word stands for; an input error about the key where it stands for nothing.
template <class Meaning, std::size_t count>
model::Result<Meaning> meaning_of(const std::pair<std::string_view, Meaning> (&words)[count], std::string_view word,
                                  const char* key) {
  std::vector<std::string_view> known;
  for (const auto& [name, meaning] : words) {
    if (name == word) return meaning;
    known.push_back(name);
  }
  return model::wrong_input(key, fmt::format("'{}' is not known", word),
                            fmt::format("known: {}", fmt::join(known, ", ")));
}

model::Graph gemm(const GemmQuestion& q) {
  const bool grouped = q.groups > 1;
  const bool quantized = is_quantized(q.type), stored = is_quantized(model::weight_type(q.type));
  const DataType weights = quantized && !stored ? model::activation_type(q.type) : model::weight_type(q.type);
  const DataType result = quantized ? DataType::bf16 : model::activation_type(q.type);
  return OneOperator(grouped ? OperatorKind::grouped_matmul : OperatorKind::matmul,
                     model::MatmulAttributes{.transpose_b = true})
      .read({q.groups * q.m, q.k}, model::activation_type(q.type))
      .read(grouped ? std::vector{q.groups, q.n, q.k} : std::vector{q.n, q.k}, weights)
      .write({q.groups * q.m, q.n}, result)
      .graph();
}

model::Graph memory_bound(const SlowdownQuestion& q) {
  const std::vector<std::int64_t> x = {q.rows, q.columns}, scale = {q.columns};
  constexpr DataType type = DataType::bf16;
  const OperatorKind kind = meaning_of(kinds, q.kind, "").value();
  if (kind == OperatorKind::rmsnorm) return OneOperator(kind).read(x, type).read(scale, type).write(x, type).graph();
  if (kind == OperatorKind::rmsnorm_grad)
    return OneOperator(kind).read(x, type).read(x, type).read(scale, type).write(x, type).write(scale, type).graph();
  return OneOperator(kind, model::CastAttributes{}).read(x, type).write(x, DataType::fp8_tile).graph();
}

using Direction = AllToAllQuestion::Direction;
using Link = AllToAllQuestion::Link;

model::RoutingSpread spread_of(const AllToAllQuestion& q, std::int64_t gpus_per_node) {
  model::MixtureOfExperts experts;
  experts.routed_experts = q.experts;
  experts.groups = std::max<std::int64_t>(q.ranks / gpus_per_node, 1);
  experts.groups_per_token = std::min(experts.groups, q.nodes_per_token);
  // A token cannot select more experts than its groups contain.
  experts.experts_per_token = std::min(q.experts_per_token, q.experts / experts.groups * experts.groups_per_token);
  return model::routing_spread(experts, experts.groups_per_token, q.ranks, std::min(q.ranks, gpus_per_node));
}

constexpr std::size_t most = 10'000;

tl::unexpected<model::Error> wrong(std::string message) {
  return model::wrong_input("", std::move(message), "alternatives are written {one,two}, not nested");
}

constexpr double bytes_per_gb = 1e9, s_per_us = 1e-6;

using Size = std::pair<std::string_view, std::int64_t*>;  // column, destination of its value

model::Result<void> read_sizes(const CsvTable& table, std::size_t row, std::initializer_list<Size> sizes) {
  for (const auto& [column, size] : sizes) *size = TRY(table.whole(row, column));
  return {};
}

model::Result<AllToAllQuestion> question_of(const CsvTable& table, std::size_t row) {
  AllToAllQuestion question;
  TRY(read_sizes(table, row,
                 {{"ep", &question.ranks},
                  {"tokens_per_rank", &question.tokens},
                  {"hidden", &question.hidden},
                  {"topk", &question.experts_per_token},
                  {"groups", &question.nodes_per_token}}));
  if (question.ranks == 1) return table.wrong(row, "ep", "one rank has nothing to send");
  if (question.experts % question.ranks != 0)
    return table.wrong(row, "ep",
                       fmt::format("{} experts do not divide over '{}' ranks", question.experts, question.ranks));
  const auto type = model::parse_precision(table.text(row, "dispatch_dtype"));
  if (!type) return table.wrong(row, "dispatch_dtype", type.error().message);
  question.dispatched = *type;
  const std::string& link = table.text(row, "link");
  if (link != "NVLink" && link != "RDMA")
    return table.wrong(row, "link", fmt::format("'{}' is neither NVLink nor RDMA", link));
  question.link = link == "RDMA" ? Link::nic : Link::nvlink;
  return question;
}

model::Result<PublishedAllToAll> all_to_all_of(const CsvTable& table, std::size_t row) {
  const auto question = TRY(question_of(table, row));
  const bool physical = question.link == Link::nic;
  const auto dispatch = TRY(table.positive(row, physical ? "physical_ib_dispatch_gbps" : "dispatch_gbps"));
  const auto combine = TRY(table.positive(row, physical ? "physical_ib_combine_gbps" : "combine_gbps"));
  return PublishedAllToAll{table.text(row, "id"), table.text(row, "source"), question, dispatch * bytes_per_gb,
                           combine * bytes_per_gb};
}

model::Result<PublishedGemm> gemm_of(const CsvTable& table, std::size_t row) {
  PublishedGemm published{table.text(row, "id"), table.text(row, "kernel"), table.text(row, "source"), {}, 0};
  GemmQuestion& gemm = published.gemm;
  TRY(read_sizes(table, row, {{"groups", &gemm.groups}, {"m", &gemm.m}, {"n", &gemm.n}, {"k", &gemm.k}}));
  const auto time = TRY(table.positive(row, "time_us"));
  published.seconds = time * s_per_us;
  // "fp8_e4m3 1x128/128x128 scales -> bf16": the operands' format comes first.
  const std::string_view dtype = table.text(row, "dtype");
  const auto type = model::parse_precision(dtype.substr(0, dtype.find_first_of("_ ")));
  if (!type) return table.wrong(row, "dtype", fmt::format("'{}' begins with no known number format", dtype));
  gemm.type = *type;
  return published;
}

using model::TableReader;
using Done = model::Result<void>;

// A case as written in its file, before alternatives are expanded and measurements are read.
struct RawFigure {
  Figure figure;                                  // with `metric`, `name` and `row` as written
  std::string row;                                // ids of rows of the case's table
  std::string published;                          // metric of the case's chunk whose value it takes; empty: as `metric`
  std::optional<double> value;                    // as written
  std::map<std::string, int, std::less<>> lines;  // of each key; "" for the table itself

  int line_of(std::string_view key) const {  // the table's line when it lacks the key
    const auto found = lines.find(key);
    return found == lines.end() ? lines.at("") : found->second;
  }
};

struct RawCase {
  ValidationCase definition;  // without figures
  std::string source;         // of figures that state none; may be empty
  std::string chunk, table;   // names of measurements; may be empty
  int chunk_line = 0, table_line = 0;
  std::vector<RawFigure> figures;
  std::vector<int> aggregate_lines;
};

void read_questions(TableReader& reader, Figure& figure) {
  reader.optional_table("gemm", [&](TableReader& table) {
    GemmQuestion question;
    READ_OPTIONAL(table, question, groups);
    READ_REQUIRED(table, question, m, n, k);
    question.sms = table.has("sms") ? table.whole("sms", std::nullopt) : 0;
    const auto type = model::parse_precision(table.has("type") ? table.text("type") : "fp8");
    if (!type) return table.fail("type", table.line_of("type"), type.error().message, type.error().hint);
    question.type = *type;
    figure.question = question;
  });
  reader.optional_table("memory_factor", [&](TableReader& table) {
    SlowdownQuestion question;
    question.kind = table.text("class");
    question.co_runner = table.text("beside");
    READ_REQUIRED(table, question, held);
    READ_OPTIONAL(table, question, rows, columns);
    figure.question = question;
  });
}

RawFigure read_figure(TableReader& reader) {
  RawFigure raw;
  raw.lines[""] = reader.line();
  for (const std::string& key : reader.keys()) raw.lines[key] = reader.line_of(key);
  Figure& figure = raw.figure;
  figure.metric = reader.text("metric");
  READ_OPTIONAL(reader, figure, name, group);
  figure.unit = reader.text("unit");
  READ_OPTIONAL(reader, raw, value, published, row);
  read_questions(reader, figure);
  READ_OPTIONAL(reader, figure, scale, tolerance, absolute_tolerance, at_most, aim);
  if (figure.aim && figure.aim > figure.tolerance)
    reader.fail("aim", raw.line_of("aim"), "an aim is narrower than its tolerance", "");
  figure.source = reader.optional_text("source");
  figure.note = reader.optional_text("note");
  return raw;
}

Aggregate read_aggregate(TableReader& reader) {
  Aggregate aggregate;
  READ_REQUIRED(reader, aggregate, name, over, tolerance);
  const std::string statistic = reader.text("statistic");
  using enum Aggregate::Statistic;
  aggregate.statistic = statistic == to_string(rms_error) ? rms_error : median_absolute_error;
  if (statistic != to_string(aggregate.statistic))
    reader.fail("statistic", reader.line(), fmt::format("'{}' is not known", statistic),
                fmt::format("known: {}, {}", to_string(median_absolute_error), to_string(rms_error)));
  return aggregate;
}

void read_raw_case(TableReader& reader, RawCase& raw) {
  ValidationCase& definition = raw.definition;
  READ_REQUIRED(reader, definition, name, plan, profiles);
  READ_OPTIONAL(reader, raw, source, chunk, table);
  raw.chunk_line = reader.line_of("chunk");
  raw.table_line = reader.line_of("table");
  reader.require("naive");
  reader.optional_table("naive", [&](TableReader& table) {
    definition.naive_mfu = table.positive("mfu");
    definition.naive_source = table.text("source");
  });
  reader.require("figure");
  reader.optional_tables("figure", [&](TableReader& table) { raw.figures.push_back(read_figure(table)); });
  reader.optional_tables("aggregate", [&](TableReader& table) {
    definition.aggregates.push_back(read_aggregate(table));
    raw.aggregate_lines.push_back(table.line());
  });
}

constexpr std::string_view gemm_metric = "gemm_s";
constexpr std::string_view slowdown_metric = "memory_factor";
constexpr std::string_view dispatch_metric = "dispatch_rate";
constexpr std::string_view combine_metric = "combine_rate";

bool of_all_to_all(std::string_view metric) { return metric == dispatch_metric || metric == combine_metric; }

std::string name_of(const GemmQuestion& gemm) {
  const std::string shape = fmt::format("{}x{}x{}", gemm.m, gemm.n, gemm.k);
  return gemm.groups > 1 ? fmt::format("{} of {}", gemm.groups, shape) : shape;
}

// Builds a case that can be evaluated from the case as written. All functions fail with file, line and key.
class CaseBuilder {
 public:
  CaseBuilder(const std::string& path, const CaseFiles& files, RawCase raw)
      : path_(path), files_(files), raw_(std::move(raw)), result_(std::move(raw_.definition)) {}

  model::Result<ValidationCase> build() {
    TRY(read_measurements());
    for (const RawFigure& figure : raw_.figures) TRY(add(figure));
    for (std::size_t i = 0; i < result_.aggregates.size(); ++i)
      TRY(check(result_.aggregates[i], raw_.aggregate_lines[i]));
    return std::move(result_);
  }

 private:
  Done read_measurements() {
    if (!raw_.chunk.empty()) {
      const auto path = TRY(find(raw_.chunk, "chunk", raw_.chunk_line));
      const auto classes = TRY(load_kernel_classes(files_.kernel_classes));
      const auto chunk = TRY(read_chunk(path, classes));
      chunk_ = model::summarize(chunk);
      result_.chunk_rank = rank_of(chunk, true);
    }
    return raw_.table.empty() ? Done() : read_table();
  }

  // Reads the table; the metrics of the figures determine the form of its rows.
  Done read_table() {
    const auto path = TRY(find(raw_.table, "table", raw_.table_line));
    const auto takes = [this](bool all_to_all) {
      return std::ranges::any_of(raw_.figures, [all_to_all](const RawFigure& raw) {
        return !raw.row.empty() && of_all_to_all(raw.figure.metric) == all_to_all;
      });
    };
    if (takes(true)) all_to_alls_ = TRY(read_published_all_to_alls(path));
    if (takes(false)) gemms_ = TRY(read_published_gemms(path));
    return {};
  }

  model::Result<std::string> find(const std::string& name, const char* key, int line) const {
    auto path = files_.find(path_, name);
    if (path) return path;
    model::Error error = path.error();
    error.file = path_;
    error.line = line;
    error.key = key;
    return tl::unexpected(error);
  }

  // Adds a figure for each alternative of its row or metric.
  Done add(const RawFigure& raw) {
    const bool by_row = !raw.row.empty();
    const char* key = by_row ? "row" : "metric";
    const auto spelled = alternatives(by_row ? raw.row : raw.figure.metric);
    if (!spelled) return wrong(raw, key, spelled.error());
    for (const Alternative& alternative : *spelled) {
      Figure figure = raw.figure;
      figure.name = with_choices(figure.name, alternative.choices);
      if (figure.source.empty()) figure.source = raw_.source;
      if (!by_row) figure.metric = alternative.text;
      Done done = by_row ? take_row(raw, figure, alternative.text) : take_value(raw, figure);
      if (done) done = check(raw, figure);
      if (!done) return done;
      result_.figures.push_back(std::move(figure));
    }
    return {};
  }

  // Takes from the row the question, value and source and, unless it is given, the name.
  Done take_row(const RawFigure& raw, Figure& figure, const std::string& id) const {
    if (raw.value) return wrong(raw, "value", "the row has the value already", "leave one of the two out");
    return of_all_to_all(figure.metric) ? take_all_to_all(raw, figure, id) : take_gemm(raw, figure, id);
  }

  Done take_gemm(const RawFigure& raw, Figure& figure, const std::string& id) const {
    const auto row = std::ranges::find(gemms_, id, &PublishedGemm::id);
    if (row == gemms_.end()) return no_row(raw, id, gemms_);
    figure.question = row->gemm;
    figure.value = row->seconds * figure.scale;
    if (figure.source.empty()) figure.source = row->source;
    if (figure.name.empty()) figure.name = name_of(row->gemm);
    return {};
  }

  Done take_all_to_all(const RawFigure& raw, Figure& figure, const std::string& id) const {
    const auto row = std::ranges::find(all_to_alls_, id, &PublishedAllToAll::id);
    if (row == all_to_alls_.end()) return no_row(raw, id, all_to_alls_);
    const bool sends = figure.metric == dispatch_metric;
    figure.all_to_all = row->question;
    figure.all_to_all->direction = sends ? AllToAllQuestion::Direction::dispatch : AllToAllQuestion::Direction::combine;
    figure.value = (sends ? row->dispatch_rate : row->combine_rate) * figure.scale;
    if (figure.source.empty()) figure.source = row->source;
    if (figure.name.empty())
      figure.name = fmt::format("{}, {} ranks", sends ? "dispatch" : "combine", row->question.ranks);
    return {};
  }

  template <class Row>
  Done no_row(const RawFigure& raw, const std::string& id, const std::vector<Row>& rows) const {
    std::vector<std::string> known;
    for (const Row& row : rows) known.push_back(row.id);
    return wrong(raw, "row", fmt::format("no row '{}' in table '{}'", id, raw_.table), model::did_you_mean(id, known));
  }

  // Takes the value as written, or from the case's chunk.
  Done take_value(const RawFigure& raw, Figure& figure) const {
    if (raw.value && !raw.published.empty())
      return wrong(raw, "value", "the key published gives the value already", "leave one of the two out");
    if (raw.value) {
      figure.value = *raw.value;
      return {};
    }
    const std::string& metric = raw.published.empty() ? figure.metric : raw.published;
    if (!of_chunk(metric)) return wrong(raw, "value", "required key is missing", "");
    if (!chunk_) return wrong(raw, "metric", "the case names no chunk that has the value", "write chunk = ... above");
    if (const Done known = check_metric(metric); !known) return wrong(raw, "metric", known.error());
    const std::optional<double> value = metric_value(metric, *chunk_);
    if (!value || *value <= 0)
      return wrong(raw, "metric", fmt::format("chunk '{}' has no {}", raw_.chunk, metric),
                   "plumbline compare shows what it has");
    figure.value = *value * figure.scale;
    return {};
  }

  Done check(const RawFigure& raw, const Figure& figure) const {
    if (figure.name.empty()) return wrong(raw, "name", "required key is missing", "");
    if (figure.source.empty()) return wrong(raw, "source", "required key is missing", "");
    const int demands = (figure.tolerance ? 1 : 0) + (figure.absolute_tolerance ? 1 : 0) + (figure.at_most ? 1 : 0);
    if (demands > 1) return wrong(raw, "tolerance", "give one of tolerance, absolute_tolerance and at_most", "");
    return check_metric_of(raw, figure);
  }

  Done check_metric_of(const RawFigure& raw, const Figure& figure) const {
    const bool asks = figure.metric == gemm_metric || figure.metric == slowdown_metric;
    const bool all_to_alls = of_all_to_all(figure.metric);
    if (asks != figure.question.has_value() || all_to_alls != figure.all_to_all.has_value() ||
        (asks && std::holds_alternative<GemmQuestion>(*figure.question) != (figure.metric == gemm_metric)))
      return wrong(raw, "metric", fmt::format("'{}' does not fit the other keys", figure.metric),
                   "gemm_s goes with row or gemm, memory_factor with memory_factor, dispatch_rate and combine_rate "
                   "with row");
    if (all_to_alls) return {};
    Done known;
    if (asks) {
      known = check_question(*figure.question);
    } else {
      known = check_metric(figure.metric);
      if (known && of_chunk(figure.metric) && !chunk_)
        return wrong(raw, "metric", "the case names no chunk", "write chunk = ... above");
    }
    return known ? known : wrong(raw, asks ? slowdown_metric : "metric", known.error());
  }

  Done check(const Aggregate& aggregate, int line) const {
    const auto in_group = [&](const Figure& figure) { return figure.group == aggregate.over; };
    if (std::ranges::any_of(result_.figures, in_group)) return {};
    std::vector<std::string> groups;
    for (const Figure& figure : result_.figures) groups.push_back(figure.group);
    return model::wrong_input_at(path_, line, "aggregate.over",
                                 fmt::format("no figure is in group '{}'", aggregate.over),
                                 model::did_you_mean(aggregate.over, groups));
  }

  Done wrong(const RawFigure& raw, std::string_view key, std::string message, std::string hint) const {
    return model::wrong_input_at(path_, raw.line_of(key), fmt::format("figure.{}", key), std::move(message),
                                 std::move(hint));
  }
  Done wrong(const RawFigure& raw, std::string_view key, const model::Error& error) const {
    return wrong(raw, key, error.message, error.hint);
  }

  const std::string& path_;
  const CaseFiles& files_;
  RawCase raw_;
  ValidationCase result_;
  std::optional<model::TimelineSummary> chunk_;
  std::vector<PublishedGemm> gemms_;
  std::vector<PublishedAllToAll> all_to_alls_;
};

}  // namespace

double GemmQuestion::flops() const { return 2.0 * static_cast<double>(groups * m) * static_cast<double>(n * k); }

model::Result<void> check_question(const KernelQuestion& question) {
  const auto* slowdown = std::get_if<SlowdownQuestion>(&question);
  if (slowdown == nullptr) return {};
  TRY(meaning_of(kinds, slowdown->kind, "memory_factor.class"));
  TRY(meaning_of(co_runners, slowdown->co_runner, "memory_factor.beside"));
  return {};
}

model::Result<SingleKernels> SingleKernels::make(const model::Profile& profile, const model::Device& device) {
  return SingleKernels(TRY(model::KernelCost::make(profile, device)), device.sms);
}

double SingleKernels::answer(const KernelQuestion& question) const {
  return std::visit([this](const auto& q) { return ask(q); }, question);
}

double SingleKernels::seconds(const model::Graph& graph, const model::Conditions& conditions) const {
  const model::KernelTime time = cost_.time(graph, graph.operators.front(), conditions);
  return time.seconds - time.gaps;
}

double SingleKernels::ask(const GemmQuestion& question) const {
  return seconds(gemm(question), {.sms = question.sms > 0 ? question.sms : sms_});
}

double SingleKernels::ask(const SlowdownQuestion& question) const {
  const model::Graph graph = memory_bound(question);
  const CoRunner co_runner = meaning_of(co_runners, question.co_runner, "").value();
  return seconds(graph, {.sms = sms_, .held = question.held, .co_runner = co_runner}) / seconds(graph, {.sms = sms_});
}

SingleAllToAlls::SingleAllToAlls(model::Profile profile, model::ClusterShape cluster)
    : profile_(std::move(profile)), cluster_(std::move(cluster)) {}

model::Result<SingleAllToAlls> SingleAllToAlls::make(const model::Profile& profile,
                                                     const model::ClusterShape& cluster) {
  // Which constants can be missing does not depend on the group.
  TRY(model::CommunicationCost::make(profile, cluster, {}, {}));
  return SingleAllToAlls(profile, cluster);
}

double SingleAllToAlls::rate(const AllToAllQuestion& question) const {
  const model::RoutingSpread spread = spread_of(question, cluster_.gpus_per_node);
  const bool sends = question.direction == Direction::dispatch;
  const model::DataType type = sends ? model::activation_type(question.dispatched) : model::DataType::bf16;
  const auto token_bytes =
      static_cast<std::int64_t>(static_cast<double>(question.hidden) * model::bytes_per_element(type));
  const auto bytes = static_cast<double>(token_bytes);
  const auto cost =
      model::CommunicationCost::make(profile_, cluster_, {spread, question.ranks, 1, bytes, bytes}, {}).value();
  model::Graph graph;
  graph.tensors = {{"x", {model::Dimension{question.tokens}, model::Dimension{question.hidden}}, type}};
  model::Operator op;
  op.kind = sends ? model::OperatorKind::dispatch : model::OperatorKind::combine;
  op.reads = op.writes = {0};
  op.attributes = model::DispatchAttributes{question.experts, question.experts / question.ranks,
                                            question.experts_per_token, token_bytes};
  const model::AllToAllTime time = cost.all_to_all(graph, op);
  const double received = static_cast<double>(question.tokens * token_bytes) * spread.ranks_per_token;
  return (question.link == Link::nic ? time.network_bytes : received) / time.alone;
}

model::Error about_row(const std::string& id, std::string message, std::string hint) {
  return {model::ErrorKind::input, std::move(message), "", 0, id, std::move(hint)};
}

model::Error about_row(const std::string& id, const model::Error& error) {
  return about_row(id, fmt::format("{}: {}", error.key, error.message), error.hint);
}

model::Result<model::Plan> plan_of_row(const std::string& id, const std::vector<std::string>& changes) {
  auto plan = model::read_plan("", id, changes);
  if (!plan) return tl::unexpected(about_row(id, plan.error()));
  plan->file.clear();  // there is no file: models are searched among the shipped ones
  return plan;
}

model::Result<std::vector<Alternative>> alternatives(std::string_view text) {
  std::vector<Alternative> result(1);
  const std::string_view whole = text;
  while (!text.empty()) {
    const std::size_t open = text.find_first_of("{}");
    for (Alternative& alternative : result) alternative.text += text.substr(0, open);
    if (open == std::string_view::npos) break;
    const std::size_t close = text.find_first_of("{}", open + 1);
    if (text[open] == '}' || close == std::string_view::npos || text[close] == '{' || close == open + 1)
      return wrong(fmt::format("the braces of '{}' do not match", whole));
    std::vector<Alternative> extended;
    for (const Alternative& begun : result) {
      for (const std::string_view choice : model::split_at(text.substr(open + 1, close - open - 1), ',')) {
        Alternative next = begun;
        next.text += choice;
        next.choices.emplace_back(choice);
        extended.push_back(std::move(next));
      }
    }
    result = std::move(extended);
    if (result.size() > most) return wrong(fmt::format("'{}' stands for more than {} texts", whole, most));
    text.remove_prefix(close + 1);
  }
  return result;
}

std::string with_choices(std::string text, const std::vector<std::string>& choices) {
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const std::string place = fmt::format("{{{}}}", i + 1);
    for (std::size_t at = text.find(place); at != std::string::npos; at = text.find(place, at + choices[i].size()))
      text.replace(at, place.size(), choices[i]);
  }
  return text;
}

model::Result<std::vector<PublishedAllToAll>> read_published_all_to_alls(const std::string& path) {
  const auto table = TRY(CsvTable::read(path, {"id", "kernel_mode", "ep", "tokens_per_rank", "hidden", "topk", "groups",
                                               "dispatch_dtype", "dispatch_gbps", "combine_gbps", "link",
                                               "physical_ib_dispatch_gbps", "physical_ib_combine_gbps", "source"}));
  std::vector<PublishedAllToAll> all_to_alls;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    if (table.text(row, "kernel_mode") != "normal") continue;
    all_to_alls.push_back(TRY(all_to_all_of(table, row)));
  }
  return all_to_alls;
}

model::Result<std::vector<PublishedGemm>> read_published_gemms(const std::string& path) {
  const auto table = TRY(CsvTable::read(path, {"id", "kernel", "dtype", "groups", "m", "n", "k", "time_us", "source"}));
  std::vector<PublishedGemm> gemms;
  for (std::size_t row = 0; row < table.rows(); ++row) gemms.push_back(TRY(gemm_of(table, row)));
  return gemms;
}

model::Result<ValidationCase> load_case(const std::string& path, const CaseFiles& files) {
  RawCase raw;
  TRY(model::read_table_file(path, [&raw](TableReader& reader) { read_raw_case(reader, raw); }));
  return CaseBuilder(path, files, std::move(raw)).build();
}

}  // namespace plumbline::calibrate
