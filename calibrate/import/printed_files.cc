#include "calibrate/import/printed_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "model/base/text.h"
#include "model/result/result.h"
#include "sim/serving/pool_model.h"

namespace plumbline::calibrate {
namespace {

// Removes the control sequences of terminals: escape, bracket, parameters, and a final letter.
void remove_colors(std::string& line) {
  for (std::size_t begin = 0; (begin = line.find("\x1b[", begin)) != std::string::npos;) {
    const std::size_t end = line.find_first_not_of("0123456789;:<=>? !\"#$%&'()*+,-./", begin + 2);
    line.erase(begin, end == std::string::npos ? end : end + 1 - begin);
  }
}

// Removes the beginning where it has this form, in which '0' is any digit.
bool remove_form(std::string_view& line, std::string_view form) {
  if (line.size() < form.size()) return false;
  const bool has = std::ranges::equal(line.substr(0, form.size()), form, [](char c, char wanted) {
    return wanted == '0' ? model::is_digit(c) : c == wanted;
  });
  if (has) line.remove_prefix(form.size());
  return has;
}

// Removes "Sat Jan 31 12:00:00 2026".
bool remove_calendar_time(std::string_view& line) {
  constexpr std::string_view days = "Sun Mon Tue Wed Thu Fri Sat ";
  std::string_view rest = line;
  if (rest.size() < 4 || rest[3] != ' ' || days.find(rest.substr(0, 4)) == std::string_view::npos) return false;
  rest.remove_prefix(std::min<std::size_t>(rest.size(), 8));  // the month, too
  if (!remove_form(rest, "00 00:00:00 0000") && !remove_form(rest, " 0 00:00:00 0000")) return false;
  line = rest;
  return true;
}

// Removes "2026-01-31 12:00:00,123 - root - INFO - ", "2026-01-31T12:00:00.123456789Z " or "12:00:00 ".
bool remove_time(std::string_view& line) {
  if (remove_calendar_time(line)) return true;
  const bool date = remove_form(line, "0000-00-00");
  if (date) line.remove_prefix(std::min(line.find_first_not_of("T "), line.size()));
  if (!remove_form(line, "00:00:00")) return date;
  if (line.starts_with(',') || line.starts_with('.'))
    line.remove_prefix(std::min(line.find_first_not_of("0123456789", 1), line.size()));
  line.remove_prefix(line.starts_with('Z') ? 1 : 0);
  return true;
}

// Removes "[1,0]<stdout>:", "<stdout>:", "[INFO] " or "(Worker pid=7) ".
bool remove_brackets(std::string_view& line) {
  const std::size_t before = line.size();
  if (line.starts_with('[') || line.starts_with('(')) {
    const std::size_t end = line.find(line.front() == '[' ? "]" : ")");
    if (end == std::string_view::npos ||
        (line.front() == '(' && line.substr(0, end).find("pid=") == std::string_view::npos))
      return false;
    line.remove_prefix(end + 1);
  }
  for (const std::string_view stream : {"<stdout>", "<stderr>"})
    if (line.starts_with(stream)) line.remove_prefix(stream.size());
  if (line.size() == before) return false;
  line.remove_prefix(line.starts_with(':') ? 1 : 0);
  return true;
}

// Removes "3: ", "node-1: ", "worker-0  | " or "- root - INFO - ".
bool remove_name(std::string_view& line) {
  for (const std::string_view level : {" - INFO - ", " - WARNING - "})
    if (const std::size_t at = line.find(level); line.starts_with("- ") && at != std::string_view::npos) {
      line.remove_prefix(at + level.size());
      return true;
    }
  const std::size_t end = line.find_first_of(": \t");
  if (end == std::string_view::npos) return false;
  if (const std::size_t bar = line.find_first_not_of(' ', end);
      bar != std::string_view::npos && line[bar] == '|' && std::ranges::any_of(line.substr(0, end), model::is_digit)) {
    line.remove_prefix(bar + 1);
    return true;
  }
  if (line[end] != ':' || end + 1 == line.size()) return false;
  const bool of_name = std::ranges::any_of(line.substr(0, end), model::is_digit) &&
                       std::string_view(" \t#").find(line[end + 1]) != std::string_view::npos;
  if (of_name) line.remove_prefix(end + 1);
  return of_name;
}

std::string_view undecorated(std::string_view line) {
  while (true) {
    line = model::trimmed(line);
    if (!remove_time(line) && !remove_brackets(line) && !remove_name(line)) return line;
  }
}

using model::MemoryCount;
using sim::MeasuredQuantity;

// What stands before the numbers of a step's line.
struct LogFormat {
  std::string_view name;
  std::string_view value;  // of the step, which every line of a step has
  MeasuredQuantity quantity;
  double factor;          // to the unit of the quantity
  std::string_view with;  // what such a line has as well, where others have the value too
  std::string_view step, batch, tflops;
};

// Those whose lines are more precise come first. Sources:
// - NVIDIA/Megatron-LM, megatron/training/training.py, training_log(); forks print its lines too
// - NVIDIA-NeMo/Megatron-Bridge, src/megatron/bridge/training/utils/train_utils.py, training_log()
// - NVIDIA/NeMo, nemo/lightning/pytorch/callbacks/progress_printer.py, and the progress bar of Lightning
// - pytorch/torchtitan, torchtitan/components/metrics.py, MetricsProcessor.log(); "wps" until 2024
// - deepspeedai/DeepSpeed, deepspeed/utils/timer.py, ThroughputTimer.stop(), and deepspeed/runtime/pipe/engine.py
constexpr std::array formats = {
    LogFormat{"Megatron-LM", "elapsed time per iteration (ms)", MeasuredQuantity::seconds, 1e-3, "", "iteration",
              "global batch size", "throughput per GPU (TFLOP/s/GPU)"},
    LogFormat{"Megatron-Bridge", "Step Time", MeasuredQuantity::seconds, 1, "GPU utilization", "", "",
              "GPU utilization"},
    LogFormat{"NeMo", "train_step_timing in s", MeasuredQuantity::seconds, 1, "", "global_step", "global_batch_size",
              "TFLOPS_per_GPU"},
    LogFormat{"torchtitan", "tps", MeasuredQuantity::tokens_per_s_per_gpu, 1, "mfu", "step", "", "tflops"},
    LogFormat{"torchtitan", "wps", MeasuredQuantity::tokens_per_s_per_gpu, 1, "mfu", "step", "", ""},
    LogFormat{"DeepSpeed", "CurrSamplesPerSec", MeasuredQuantity::samples_per_s, 1, "", "global_step", "", ""},
    LogFormat{"DeepSpeed", "iter time (s)", MeasuredQuantity::seconds, 1, "samples/sec", "steps", "", ""},
};

// Peaks of memory, those first that see most of it. Sources: report_memory() in megatron/training/utils.py (MB are MiB
// there) and in Megatron-Bridge's train_utils.py; torchtitan's and DeepSpeed's files above.
struct MemoryFormat {
  std::string_view value, with;
  double unit;
  MemoryCount counted;
};
constexpr double mebibyte = 1024.0 * 1024, gibibyte = 1024 * mebibyte, gigabyte = 1e9;
constexpr std::array memory_formats = {
    MemoryFormat{"device usage", "memory (MB)", mebibyte, MemoryCount::device},
    MemoryFormat{"max reserved", "memory (MB)", mebibyte, MemoryCount::reserved},
    MemoryFormat{"mem-max-reserved-gigabytes", "", gigabyte, MemoryCount::reserved},
    MemoryFormat{"memory", "GiB(", gibibyte, MemoryCount::reserved},
    MemoryFormat{"max allocated", "memory (MB)", mebibyte, MemoryCount::allocated},
    MemoryFormat{"mem-max-allocated-gigabytes", "", gigabyte, MemoryCount::allocated},
    MemoryFormat{"MaxMemAllocated", "", gibibyte, MemoryCount::allocated},
};

constexpr bool has(std::string_view line, std::string_view part) { return line.find(part) != std::string_view::npos; }

struct Number {
  double value = 0;
  std::size_t end = 0;  // in the line
};

// Returns the first number that follows the name, with blanks and one of ":=." between them: "tps: 7,800",
// "global_step=10", "seq_length ........ 4096".
std::optional<Number> number_after(std::string_view line, std::string_view name) {
  for (std::size_t at = line.find(name); at != std::string_view::npos; at = line.find(name, at + 1)) {
    if (at > 0 && (std::isalnum(static_cast<unsigned char>(line[at - 1])) != 0 || line[at - 1] == '_')) continue;
    const std::size_t begin = line.find_first_not_of(" :=.", at + name.size());
    if (begin == at + name.size() || begin == std::string_view::npos) continue;
    const auto digit = [&](std::size_t i) { return i < line.size() && '0' <= line[i] && line[i] <= '9'; };
    std::string digits;
    std::size_t end = begin;
    for (; digit(end) || (end < line.size() && (line[end] == '.' || (line[end] == ',' && digit(end + 1)))); ++end)
      if (line[end] != ',') digits += line[end];
    if (const auto value = model::parse_number<double>(digits)) return Number{*value, end};
  }
  return std::nullopt;
}

std::optional<double> value_after(std::string_view line, std::string_view name) {
  const auto number = name.empty() ? std::nullopt : number_after(line, name);
  return number ? std::optional(number->value) : std::nullopt;
}

const LogFormat* log_format_of(std::string_view line) {
  const auto found = std::ranges::find_if(
      formats, [&](const LogFormat& one) { return has(line, one.value) && (one.with.empty() || has(line, one.with)); });
  return found == formats.end() ? nullptr : &*found;
}

// Returns the steps behind warm-up, however long that was.
std::span<const double> second_half(std::span<const double> values) { return values.subspan(values.size() / 2); }

double median(std::span<const double> values) { return model::quantiles_of({values.begin(), values.end()}).p50; }

class LogReader {
 public:
  LogReader(const std::string& path, const model::Plan& plan) : path_(path), plan_(plan) {}

  void line(std::string_view line, int number, bool ended) {
    if (error_) return;
    line_ = number;
    check_settings(line);
    for (std::size_t i = 0; i < memory_formats.size(); ++i)
      if (const MemoryFormat& one = memory_formats[i]; has(line, one.with))
        if (const auto bytes = value_after(line, one.value)) peaks_[i] = std::max(peaks_[i], *bytes * one.unit);
    if (const LogFormat* format = log_format_of(line)) read_step(line, *format, ended);
  }

  model::Result<sim::Measurement> finish() && {
    if (error_) return tl::unexpected(*error_);
    const auto most = std::ranges::find_if(steps_, [](const Steps& one) { return !one.values.empty(); });
    if (most == steps_.end()) return without_step();
    sim::Measurement measurement;
    model::MeasuredLog log{.format = name_of(static_cast<std::size_t>(most - steps_.begin())),
                           .warm_up = other_batches_,
                           .damaged = damaged_};
    const std::vector<double> kept = steady(most->values, log);
    const model::Quantiles times = model::quantiles_of(kept);
    log.steps = static_cast<std::int64_t>(kept.size());
    log.low = times.p10 / times.p50;
    log.high = times.p90 / times.p50;
    for (const Steps& one : steps_)
      if (!one.tflops.empty() && !log.tflops) log.tflops = median(second_half(one.tflops));
    const MeasuredQuantity quantity = formats[static_cast<std::size_t>(most - steps_.begin())].quantity;
    measurement.step = {path_, quantity, quantity == MeasuredQuantity::seconds ? times.p50 : 1 / times.p50};
    measurement.log = std::move(log);
    if (const auto peak = std::ranges::find_if(peaks_, [](double bytes) { return bytes > 0; }); peak != peaks_.end()) {
      measurement.peak_bytes = *peak;
      measurement.counted = memory_formats[static_cast<std::size_t>(peak - peaks_.begin())].counted;
    }
    return measurement;
  }

 private:
  struct Steps {                 // of a format
    std::vector<double> values;  // seconds, or seconds of a token of a GPU or of a sample
    std::vector<double> tflops;
    std::set<double> numbers;  // of steps: a progress bar repeats them, and so do ranks
  };

  model::Failure difference(int line, const char* key, double logged, std::int64_t planned) const {
    return model::wrong_input_at(path_, line, key, fmt::format("{:.0f} in the log, {} in the plan", logged, planned),
                                 fmt::format("hold it against the plan that ran: --set {}={:.0f}", key, logged));
  }

  void check(const char* key, double logged, std::int64_t planned) {
    if (logged != static_cast<double>(planned) && !error_) error_ = difference(line_, key, logged, planned).value();
  }

  // Compares what programs print of their configuration with the plan.
  void check_settings(std::string_view line) {
    const auto batch = plan_.batch.global_batch_size, length = plan_.batch.sequence_length;
    if (has(line, " ...."))
      for (const auto& [name, key, planned] : {std::tuple{"global_batch_size", "batch.global_batch_size", batch},
                                               std::tuple{"train_batch_size", "batch.global_batch_size", batch},
                                               std::tuple{"seq_length", "batch.sequence_length", length}})
        if (const auto value = line.starts_with(name) ? value_after(line, name) : std::nullopt)
          check(key, *value, planned);
    if (line.starts_with("using world size"))
      if (const auto gpus = value_after(line, "using world size")) check("cluster.gpus", *gpus, plan_.cluster.gpus);
    if (has(line, "Trainer is initialized with")) {
      if (const auto value = value_after(line, "global batch size")) check("batch.global_batch_size", *value, batch);
      if (const auto value = value_after(line, "sequence length")) check("batch.sequence_length", *value, length);
    }
  }

  void read_step(std::string_view line, const LogFormat& format, bool ended) {
    const auto value = number_after(line, format.value);
    const bool inside = line.find(format.value) != line.rfind(format.value);
    if (!value || !(value->value > 0) || inside || (!ended && value->end == line.size())) {
      ++damaged_;
      return;
    }
    // The batch may ramp up to that of the plan.
    if (const auto batch = value_after(line, format.batch);
        batch && *batch != static_cast<double>(plan_.batch.global_batch_size)) {
      other_batch_ = batch;
      ++other_batches_;
      return;
    }
    Steps& steps = steps_[static_cast<std::size_t>(&format - formats.data())];
    if (const auto number = value_after(line, format.step); number && !steps.numbers.insert(*number).second) return;
    const double scaled = value->value * format.factor;
    steps.values.push_back(format.quantity == MeasuredQuantity::seconds ? scaled : 1 / scaled);
    if (const auto tflops = value_after(line, format.tflops); tflops && *tflops > 0) steps.tflops.push_back(*tflops);
  }

  // A log may have the lines of several programs.
  std::string name_of(std::size_t format) const {
    const auto present = [&](std::string_view name) {
      for (std::size_t i = 0; i < formats.size(); ++i)
        if (formats[i].name == name && !steps_[i].values.empty()) return true;
      return false;
    };
    if (format == 0 && present("Megatron-Bridge")) return "Megatron-Bridge";
    if (format == 0 && present("DeepSpeed")) return "Megatron-DeepSpeed";
    return std::string(formats[format].name);
  }

  // Returns the steps without the first and those outside of the usual, which are counted.
  static std::vector<double> steady(const std::vector<double>& values, model::MeasuredLog& log) {
    if (values.size() == 1) return values;
    constexpr double deviations = 3.5;  // Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993
    constexpr double normal = 1.4826, least = 0.05;
    const double middle = median(second_half(values));
    std::vector<double> distances;
    for (const double value : second_half(values)) distances.push_back(std::abs(value - middle));
    const double most = std::max(least * middle, deviations * normal * median(distances));
    std::vector<double> kept;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i > 0 && std::abs(values[i] - middle) <= most)
        kept.push_back(values[i]);
      else
        ++(kept.empty() ? log.warm_up : log.pauses);
    }
    return kept;
  }

  model::Failure without_step() const {
    if (other_batch_) return difference(0, "batch.global_batch_size", *other_batch_, plan_.batch.global_batch_size);
    std::vector<std::string_view> names;
    for (const LogFormat& one : formats)
      if (names.empty() || names.back() != one.name) names.push_back(one.name);
    return model::wrong_input_at(
        path_, 0, "", damaged_ > 0 ? "no line of a step is whole" : "no line of a step",
        fmt::format("a training log of {}, with what it prints of each step", fmt::join(names, ", ")));
  }

  const std::string& path_;
  const model::Plan& plan_;
  std::array<Steps, formats.size()> steps_;
  std::array<double, memory_formats.size()> peaks_{};
  std::optional<double> other_batch_;
  std::int64_t damaged_ = 0, other_batches_ = 0;
  int line_ = 0;
  std::optional<model::Error> error_;
};

}  // namespace

void visit_printed_lines(std::string_view text,
                         const std::function<void(std::string_view line, int number, bool ended)>& visit) {
  std::string plain;
  int number = 0;
  for (const std::string_view line : model::lines_of(text)) {
    ++number;
    plain = line;
    remove_colors(plain);
    const bool ended = line.data() + line.size() < text.data() + text.size();
    for (const std::string_view part : model::split_at(plain, '\r')) visit(undecorated(part), number, ended);
  }
}

bool is_training_log(std::string_view text) {
  bool found = false;
  visit_printed_lines(text, [&](std::string_view line, int, bool) {
    const LogFormat* format = found ? nullptr : log_format_of(line);
    found = found || (format != nullptr && number_after(line, format->value));
  });
  return found;
}

model::Result<sim::Measurement> parse_training_log(std::string_view text, const std::string& path,
                                                   const model::Plan& plan) {
  LogReader reader(path, plan);
  visit_printed_lines(text, [&](std::string_view line, int number, bool ended) { reader.line(line, number, ended); });
  return std::move(reader).finish();
}

namespace {

// Returns a figure of a benchmark by what engines call it where they print it, or by its key in their JSON. Sources:
// vllm-project/vllm vllm/benchmarks/serve.py; sgl-project/sglang python/sglang/bench_serving.py.
std::optional<double> figure_of(std::string_view text, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names)
    if (const auto value = value_after(text, name)) return value;
  return std::nullopt;
}

}  // namespace

model::Result<sim::MeasuredValue> parse_serving_benchmark(std::string_view text, const std::string& path,
                                                          const model::Plan& plan) {
  constexpr std::string_view printed = "Mean TPOT (ms)", kept = "mean_tpot_ms\"";
  const auto milliseconds = figure_of(text, {printed, kept});
  if (!milliseconds || *milliseconds <= 0)
    return model::wrong_input_at(
        path, 0, "", "states no mean time per output token",
        "what vllm bench serve or sglang.bench_serving prints, or its JSON; or a figure: 35ms");
  for (const std::string_view name : {printed, kept})
    if (const std::size_t first = text.find(name); first != text.npos && has(text.substr(first + 1), name))
      return model::wrong_input_at(path, 0, "", "holds several results", "give a file of each");
  const sim::MeanRequest planned = sim::mean_request(plan);
  const double completed = figure_of(text, {"Successful requests", "completed\""}).value_or(0);
  std::vector<std::string> differences, remedies;
  const auto check = [&](const char* key, double own, std::optional<double> found, double over) {
    constexpr double tolerance = 0.02;
    if (!found || over <= 0 || std::abs(*found / over - own) <= tolerance * own) return;
    differences.push_back(fmt::format("{:.0f} for {} = {:.0f}", *found / over, key, own));
    remedies.push_back(fmt::format("--set {}={:.0f}", key, *found / over));
  };
  check("inference.input_tokens", planned.input, figure_of(text, {"Total input tokens", "total_input_tokens\""}),
        completed);
  check("inference.output_tokens", planned.output, figure_of(text, {"Total generated tokens", "total_output_tokens\""}),
        completed);
  check("inference.concurrency", static_cast<double>(plan.inference.concurrency),
        figure_of(text, {"Maximum request concurrency", "Max request concurrency", "max_concurrency\""}), 1);
  if (!differences.empty())
    return model::wrong_input_at(path, 0, "",
                                 fmt::format("measured another load than the plan's: {}", fmt::join(differences, ", ")),
                                 fmt::format("{}", fmt::join(remedies, " ")));
  return sim::MeasuredValue{fmt::format("The mean of {}", path), MeasuredQuantity::seconds, *milliseconds / 1e3};
}

}  // namespace plumbline::calibrate
