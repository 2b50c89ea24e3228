#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "calibrate/import/kineto/detail/events.h"
#include "model/base/text.h"

namespace plumbline::calibrate {
namespace {

constexpr std::int64_t per_microsecond = 1000;
constexpr std::int64_t limit = std::numeric_limits<std::int64_t>::max() / 4;  // so that sums of two stay in range

std::optional<std::int64_t> from_double(std::string_view text) {
  const auto value = model::parse_number<double>(text);
  if (!value) return std::nullopt;
  const double ns = *value * static_cast<double>(per_microsecond);
  if (!(std::abs(ns) < static_cast<double>(limit))) return std::nullopt;
  return std::llround(ns);
}

// Returns nanoseconds: the first three digits after the point, rounded by the fourth.
std::int64_t fraction(std::string_view digits) {
  std::int64_t ns = 0;
  for (std::size_t i = 0; i < 3; ++i) ns = ns * 10 + (i < digits.size() ? digits[i] - '0' : 0);
  return ns + (digits.size() > 3 && digits[3] >= '5' ? 1 : 0);
}

namespace ondemand = simdjson::ondemand;
using model::Error;
using model::Result;
using std::string_view;

enum class Category { unneeded, kernel, copy, gpu_annotation, annotation, call, operation, python };

struct Arguments {
  std::optional<std::int64_t> device, stream;
  std::int64_t correlation = 0, bytes = 0, registers = 0, shared = 0;
  std::int64_t grid = 0, threads = 0;  // products over the dimensions
  std::int64_t sequence = -1;          // of autograd
  string_view dims;                    // "Input Dims" as they stand in the file
  string_view operator_class;          // of a kernel of `plumbline run --trace`, "gemm"; else empty
};

// The texts are JSON tokens with their quotes, except the name.
struct Event {
  string_view name, pid, tid, ts, dur;
  Category category = Category::unneeded;
  bool complete = false;  // "ph": "X"
  Arguments arguments;
};

// Whether a call may launch work on a GPU: cudaLaunchKernelExC, cuLaunchKernel, hipExtModuleLaunchKernel,
// cudaGraphLaunch, cudaMemcpyAsync, cudaMemsetAsync.
bool launches(string_view name) {
  const auto has = [&](string_view word) { return name.find(word) != string_view::npos; };
  return has("Launch") || has("Memcpy") || has("Memset");
}

constexpr string_view module_prefix = "nn.Module: ";

// Whether an operator multiplies matrices: aten::addmm, aten::_scaled_mm, aten::linear, _LayerNormLinear.
bool multiplies(string_view name) {
  const auto has = [&](string_view word) { return name.find(word) != string_view::npos; };
  return has("mm") || has("matmul") || has("inear") || has("einsum");
}

int clamped(std::int64_t value) {
  return static_cast<int>(std::clamp<std::int64_t>(value, 0, std::numeric_limits<int>::max()));
}

Category category_of(string_view cat) {
  // Capital letters are from profilers before PyTorch 1.11.
  if (cat == "kernel" || cat == "Kernel") return Category::kernel;
  if (cat == "gpu_memcpy" || cat == "gpu_memset" || cat == "Memcpy" || cat == "Memset") return Category::copy;
  if (cat == "gpu_user_annotation") return Category::gpu_annotation;
  if (cat == "user_annotation") return Category::annotation;
  if (cat == "cpu_op" || cat == "Operator") return Category::operation;
  if (cat == "python_function") return Category::python;
  if (cat == "cuda_runtime" || cat == "cuda_driver" || cat == "hip_runtime" || cat == "Runtime") return Category::call;
  return Category::unneeded;
}

// Returns a whole number, also from inside a string ("stream 7").
std::optional<std::int64_t> whole_number(string_view token) {
  const std::size_t first = token.find_first_of("-0123456789");
  if (first == string_view::npos) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(token.data() + first, token.data() + token.size(), value);
  const string_view rest(end, static_cast<std::size_t>(token.data() + token.size() - end));
  if (status != std::errc() || (!rest.empty() && rest != "\"")) return std::nullopt;
  return value;
}

// Adds the relevant parts of each event to a trace.
class EventKeeper {
 public:
  explicit EventKeeper(Trace& trace) : trace_(trace) { trace_.names.number(""); }  // the empty name is number 0

  // Adds the event; returns what is wrong with it as the rest of a sentence, or "".
  std::string keep(const Event& event) {
    problem_.clear();
    if (!event.complete || event.category == Category::unneeded) return problem_;
    if (event.category == Category::call) {
      keep_call(event);
      return problem_;
    }
    if (event.category == Category::python && !event.name.starts_with(module_prefix)) return problem_;
    const auto start = nanoseconds(event.ts), duration = nanoseconds(event.dur);
    const bool evidence = event.category != Category::kernel && event.category != Category::copy;
    if (evidence && (!start || !duration || *duration < 0)) return problem_;  // the kernels do not depend on it
    if (!start) {
      bad_time("ts", event.ts);
    } else if (!duration) {
      bad_time("dur", event.dur);
    } else if (*duration < 0) {
      problem_ = fmt::format("its duration is negative: {} us", event.dur);
    } else if (evidence && event.category != Category::gpu_annotation) {
      keep_range(event, *start, *start + *duration);
    } else {
      keep_work(event, *start, *duration);
    }
    return problem_;
  }

 private:
  void keep_call(const Event& event) {
    if (event.arguments.correlation == 0 || !launches(event.name)) return;
    const auto start = nanoseconds(event.ts);
    if (!start) return;  // the kernels do not depend on it
    trace_.launches.push_back({event.arguments.correlation, *start, thread_of(event)});
  }
  // Keeps what spans a time of a CPU thread.
  void keep_range(const Event& event, std::int64_t start_ns, std::int64_t end_ns) {
    if (event.category == Category::operation) {
      const string_view dims = multiplies(event.name) ? event.arguments.dims : string_view();
      if (event.arguments.sequence < 0 && dims.empty() && !event.name.starts_with(evaluate_prefix)) return;
      trace_.operations.push_back({start_ns, end_ns, event.arguments.sequence, trace_.names.number(event.name),
                                   trace_.names.number(dims), thread_of(event)});
      return;
    }
    auto& ranges = event.category == Category::python ? trace_.modules : trace_.annotations;
    ranges.push_back({start_ns, end_ns, trace_.names.number(event.name), thread_of(event), 0, 0});
  }
  // Keeps work that ran on a GPU, or an annotation that spans it.
  void keep_work(const Event& event, std::int64_t start_ns, std::int64_t duration_ns) {
    const Arguments& given = event.arguments;
    const int device = small(given.device.value_or(whole_number(event.pid).value_or(0)), "device");
    const int stream = small(given.stream.value_or(whole_number(event.tid).value_or(0)), "stream");
    if (!problem_.empty()) return;
    const std::uint32_t name = name_of(event);
    if (event.category == Category::gpu_annotation) {
      trace_.gpu_annotations.push_back({start_ns, start_ns + duration_ns, name, 0, device, stream});
      return;
    }
    GpuWork work{start_ns, duration_ns, given.correlation, given.bytes, name, device, stream};
    work.grid = clamped(given.grid);
    work.threads = clamped(given.threads);
    work.registers = clamped(given.registers);
    work.shared_bytes = clamped(given.shared);
    work.copy = event.category == Category::copy;
    trace_.work.push_back(work);
  }
  void bad_time(string_view key, string_view text) {
    constexpr std::size_t shown = 40;
    problem_ = text.empty() ? fmt::format("it has no {}", key)
                            : fmt::format("its {} is no time in microseconds: {}", key, text.substr(0, shown));
  }
  int small(std::int64_t value, string_view what) {
    if (!std::in_range<int>(value)) problem_ = fmt::format("its {} is out of range: {}", what, value);
    return static_cast<int>(value);
  }
  std::uint32_t thread_of(const Event& event) {
    thread_.assign(event.pid).append(1, ':').append(event.tid);
    return trace_.threads.number(thread_);
  }
  // Operators that plumbline executed state their class, by which the patterns of kernels.toml recognize them.
  std::uint32_t name_of(const Event& event) {
    const string_view kind = event.arguments.operator_class;
    if (kind.empty()) return trace_.names.number(event.name);
    name_.assign("plumbline::").append(kind).append("::").append(event.name);
    return trace_.names.number(name_);
  }

  Trace& trace_;
  std::string thread_, name_;  // "pid:tid" and "plumbline::gemm::q_b", kept to save allocations
  std::string problem_;
};

string_view trimmed(string_view token) {
  const std::size_t end = token.find_last_not_of(" \t\r\n");
  return token.substr(0, end + 1);
}

// Returns a string, or what stands there where it is none, or has escapes that JSON lacks.
string_view text_of(ondemand::value value) {
  const string_view token = trimmed(value.raw_json_token());
  string_view text;
  return value.get_string().get(text) == simdjson::SUCCESS ? text : token;
}

// Computes the product of an array of extents, at most the largest int; 0 of anything else, such as the "grid(100,)" or
// null of Triton's kernels. Only text that is no JSON is an error.
simdjson::error_code product_of(ondemand::value value, std::int64_t& result) {
  result = 0;
  ondemand::array extents;
  if (value.get_array().get(extents) != simdjson::SUCCESS) return simdjson::SUCCESS;
  double product = 1;
  for (auto item : extents) {
    double extent = 0;
    if (item.error() != simdjson::SUCCESS) return item.error();
    if (item.get_double().get(extent) != simdjson::SUCCESS || !(extent >= 0)) return simdjson::SUCCESS;
    product *= extent;
  }
  result = static_cast<std::int64_t>(std::min<double>(product, std::numeric_limits<int>::max()));
  return simdjson::SUCCESS;
}

// Replaces what JSON does not allow in strings, control characters and bytes that are no UTF-8: profilers copy names as
// they are.
void make_readable(std::string& text) {
  constexpr unsigned char first_printable = 0x20, first_of_many = 0x80;
  const bool is_utf8 = simdjson::validate_utf8(text);
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < first_printable) c = ' ';
    if (!is_utf8 && byte >= first_of_many) c = '?';
  }
}

simdjson::error_code read_arguments(ondemand::value value, Arguments& arguments) {
  ondemand::object object;
  // Some events have no arguments, or a list.
  if (value.get_object().get(object) != simdjson::SUCCESS) return simdjson::SUCCESS;
  for (auto field : object) {
    ondemand::raw_json_string key;
    if (const auto error = field.key().get(key)) return error;
    ondemand::value item;
    if (const auto error = field.value().get(item)) return error;
    const auto number = [&] { return whole_number(trimmed(item.raw_json_token())); };
    if (key == "device") {
      arguments.device = number();
    } else if (key == "stream") {
      arguments.stream = number();
    } else if (key == "correlation") {
      arguments.correlation = number().value_or(0);
    } else if (key == "bytes") {
      arguments.bytes = number().value_or(0);
    } else if (key == "registers per thread") {
      arguments.registers = number().value_or(0);
    } else if (key == "shared memory") {
      arguments.shared = number().value_or(0);
    } else if (key == "Sequence number") {
      arguments.sequence = number().value_or(-1);
    } else if (key == "class") {
      if (item.get_string().get(arguments.operator_class) != simdjson::SUCCESS) arguments.operator_class = {};
    } else if (key == "Input Dims") {
      ondemand::array shapes;
      if (item.get_array().get(shapes) == simdjson::SUCCESS && shapes.raw_json().get(arguments.dims))
        arguments.dims = {};
    } else if (key == "grid") {
      if (const auto error = product_of(item, arguments.grid)) return error;
    } else if (key == "block") {
      if (const auto error = product_of(item, arguments.threads)) return error;
    }
  }
  return simdjson::SUCCESS;
}

// Reads the needed fields of one event.
simdjson::error_code read_event(ondemand::object object, Event& event) {
  bool has_category = false;
  for (auto field : object) {
    ondemand::raw_json_string key;
    if (const auto error = field.key().get(key)) return error;
    ondemand::value value;
    if (const auto error = field.value().get(value)) return error;
    simdjson::error_code error = simdjson::SUCCESS;
    if (key == "ph") {
      event.complete = trimmed(value.raw_json_token()) == "\"X\"";
    } else if (key == "cat") {
      event.category = category_of(text_of(value));
      has_category = true;
    } else if (key == "name") {
      event.name = text_of(value);
    } else if (key == "pid") {
      event.pid = trimmed(value.raw_json_token());
    } else if (key == "tid") {
      event.tid = trimmed(value.raw_json_token());
    } else if (key == "ts") {
      event.ts = trimmed(value.raw_json_token());
    } else if (key == "dur") {
      event.dur = trimmed(value.raw_json_token());
    } else if (key == "args") {
      error = read_arguments(value, event.arguments);
    }
    if (error != simdjson::SUCCESS) return error;
    if (has_category && event.category == Category::unneeded) break;
  }
  return simdjson::SUCCESS;
}

// Kernels and copies of a trace. Each takes up to 1.1 kB with its place and its text (608 MB for 500,000 of one step).
constexpr std::size_t most_work = std::size_t{1} << 23;
// Different names, and shapes, of a trace. Each is held against all patterns of kernels, for some 0.1 ms; traces of
// training have thousands.
constexpr std::size_t most_names = std::size_t{1} << 18;

class EventParser {
 public:
  EventParser(std::string path, Trace& trace) : path_(std::move(path)), trace_(trace), keeper_(trace) {}

  Result<void> read(EventBatch& batch) {
    make_readable(batch.text);
    const std::size_t size = batch.text.size();
    batch.text.append(simdjson::SIMDJSON_PADDING, ' ');
    ondemand::document document;
    ondemand::array events;
    auto error = parser_.iterate(batch.text.data(), size, batch.text.size()).get(document);
    if (error == simdjson::SUCCESS) error = document.get_array().get(events);
    if (error != simdjson::SUCCESS)
      return wrong(batch, 0, fmt::format("not JSON from there on: {}", simdjson::error_message(error)));
    std::size_t index = 0;
    for (auto item : events) {
      Event event;
      ondemand::object object;
      error = item.get_object().get(object);
      if (error == simdjson::SUCCESS) error = read_event(object, event);
      if (error != simdjson::SUCCESS)
        return wrong(batch, index, fmt::format("not JSON: {}", simdjson::error_message(error)));
      constexpr std::size_t shown = 60;
      if (const std::string problem = keeper_.keep(event); !problem.empty())
        return wrong(batch, index, fmt::format("'{}': {}", event.name.substr(0, shown), problem));
      ++index;
    }
    trace_.events += batch.offsets.size();
    if (trace_.work.size() > most_work)
      return model::wrong_input_at(path_, 0, "", fmt::format("more than {} kernels and copies", most_work),
                                   "record fewer steps: torch.profiler.schedule(wait=1, warmup=1, active=1)");
    if (trace_.names.size() > most_names)
      return model::wrong_input_at(path_, 0, "", fmt::format("more than {} different names and shapes", most_names),
                                   "kernels of training have the same names in each step; record fewer steps");
    return {};
  }

 private:
  tl::unexpected<Error> wrong(const EventBatch& batch, std::size_t index, const std::string& what) const {
    const std::uint64_t offset = batch.offsets.at(std::min(index, batch.offsets.size() - 1));
    return model::wrong_input_at(path_, 0, "",
                                 fmt::format("event {} at byte {}: {}", batch.first + index, offset, what),
                                 "the trace is damaged; record it again");
  }

  std::string path_;
  Trace& trace_;
  EventKeeper keeper_;
  ondemand::parser parser_;
};

}  // namespace

std::optional<std::int64_t> nanoseconds(std::string_view text) {
  if (text.size() > 1 && text.front() == '"' && text.back() == '"') text = text.substr(1, text.size() - 2);
  const bool negative = text.starts_with('-');
  std::string_view rest = text.substr(negative ? 1 : 0);
  std::int64_t value = 0;
  std::size_t digits = 0;
  for (; digits < rest.size() && model::is_digit(rest[digits]); ++digits) {
    value = value * 10 + (rest[digits] - '0');
    if (value > limit / per_microsecond) return std::nullopt;
  }
  if (digits == 0) return std::nullopt;
  value *= per_microsecond;
  rest.remove_prefix(digits);
  if (rest.starts_with('.')) {
    rest.remove_prefix(1);
    std::size_t decimals = 0;
    while (decimals < rest.size() && model::is_digit(rest[decimals])) ++decimals;
    value += fraction(rest.substr(0, decimals));
    rest.remove_prefix(decimals);
  }
  if (!rest.empty()) return from_double(text);
  return negative ? -value : value;
}

EventSplitter::Sink event_parser(std::string path, Trace& trace) {
  return [parser = std::make_shared<EventParser>(std::move(path), trace)](EventBatch& batch) {
    return parser->read(batch);
  };
}

}  // namespace plumbline::calibrate
