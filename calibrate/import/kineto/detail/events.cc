#include "calibrate/import/kineto/detail/events.h"

#include <fmt/format.h>
#include <simdjson.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "model/plan/plan.h"

namespace plumbline::calibrate {
namespace {

namespace fs = std::filesystem;
using GzipFile = std::unique_ptr<gzFile_s, decltype(&gzclose)>;

// Opens a file, plain or gzip, whose text is read in pieces: a trace of gigabytes is never in memory as a whole.
model::Result<GzipFile> opened(const std::string& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (!fs::exists(status)) return model::wrong_input_at(path, 0, "", "no such file", "check the path");
  if (fs::is_directory(status))
    return model::wrong_input_at(path, 0, "", "is a folder, not a file", "name a trace in it");
  errno = 0;
  GzipFile file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) return model::wrong_input_at(path, 0, "", "cannot open the file", std::strerror(errno));
  constexpr unsigned buffer = 1u << 16;
  gzbuffer(file.get(), buffer);
  return file;
}

int gzip_status(gzFile file) {
  int status = Z_OK;
  gzerror(file, &status);
  return status;
}

// Fills the text from its beginning and returns the number of bytes; 0 at the end, which may be that of a gzip stream
// that is cut off. Fails (input) when the stream is damaged, or the file cannot be read.
model::Result<std::size_t> read_piece(gzFile file, const std::string& path, std::string& text) {
  const int count = gzread(file, text.data(), static_cast<unsigned>(text.size()));
  if (count >= 0) return static_cast<std::size_t>(count);
  if (gzip_status(file) == Z_MEM_ERROR) throw std::bad_alloc();
  if (gzip_status(file) == Z_ERRNO)
    return model::wrong_input_at(
        path, 0, "", fmt::format("cannot read the file behind byte {}: {}", gzoffset(file), std::strerror(errno)));
  return model::wrong_input_at(path, 0, "",
                               fmt::format("the gzip stream is damaged; {} bytes of text were read", gztell(file)),
                               "copy the file again, or test it with gzip -t");
}

// Fails (input) when a gzip stream has become far larger than traces do, so that memory and time grow with the file.
model::Result<void> check_growth(gzFile file, const std::string& path, std::uint64_t text) {
  constexpr std::uint64_t most_times = 100, always = std::uint64_t{64} << 20;  // traces become 5 to 30 times as large
  const auto packed = static_cast<std::uint64_t>(std::max<z_off_t>(gzoffset(file), 0));
  if (gzdirect(file) != 0 || text <= always || text / most_times <= packed) return {};
  return model::wrong_input_at(path, 0, "",
                               fmt::format("{} bytes of the gzip stream become more than {} bytes of text, over {} "
                                           "times as many",
                                           packed, text, most_times),
                               "traces become 5 to 30 times as large; of one that repeats itself that much, give the "
                               "unpacked file (gunzip)");
}

// Calls use(element) with the parsed value of a property, unless it is missing or not JSON.
template <class Use>
void with_property(const std::map<std::string, std::string, std::less<>>& properties, std::string_view key,
                   const Use& use) {
  const auto found = properties.find(key);
  if (found == properties.end()) return;
  simdjson::dom::parser parser;
  simdjson::dom::element element;
  if (parser.parse(found->second).get(element) == simdjson::SUCCESS) use(element);
}

std::optional<int> int_at(const simdjson::dom::element& element, std::string_view key) {
  std::int64_t value = 0;
  if (element[key].get(value) != simdjson::SUCCESS || value != static_cast<int>(value)) return std::nullopt;
  return static_cast<int>(value);
}

// Reads the top-level values that describe a trace: traceName, deviceProperties, distributedInfo, and otherData of
// plumbline. Missing or malformed ones are ignored.
void read_properties(const std::map<std::string, std::string, std::less<>>& properties, Trace& trace) {
  with_property(properties, "traceName", [&](const simdjson::dom::element& element) {
    std::string_view name;
    if (element.get(name) == simdjson::SUCCESS) trace.name = name.substr(name.find_last_of("/\\") + 1);
  });
  with_property(properties, "distributedInfo", [&](const simdjson::dom::element& element) {
    trace.origin.rank = int_at(element, "rank").value_or(-1);
    trace.origin.world_size = int_at(element, "world_size").value_or(0);
  });
  with_property(properties, "otherData", [&](const simdjson::dom::element& element) {
    std::string_view ranks;
    trace.origin.of_pipeline = element["ranks"].get(ranks) == simdjson::SUCCESS && ranks == "of the pipeline";
    std::string_view text;
    if (element["plan"].get(text) != simdjson::SUCCESS) return;
    if (const auto plan = model::read_plan(text, "otherData", {})) trace.origin.plan_gpus = plan->cluster.gpus;
  });
  with_property(properties, "deviceProperties", [&](const simdjson::dom::element& element) {
    simdjson::dom::array devices;
    if (element.get(devices) != simdjson::SUCCESS) return;
    for (const simdjson::dom::element& device : devices) {
      const auto id = int_at(device, "id");
      std::string_view name;
      if (!id || device["name"].get(name) != simdjson::SUCCESS) continue;
      trace.devices[*id] = {std::string(name), int_at(device, "numSms").value_or(0)};
    }
  });
}

using model::Error;
using model::Result;

constexpr std::size_t batch_bytes = std::size_t{1} << 20;
constexpr std::size_t largest_event = std::size_t{64} << 20;
constexpr std::size_t largest_property = std::size_t{1} << 20;
constexpr std::size_t largest_key = 4096;
constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

// Returns the hint for a file that is not a trace of the PyTorch profiler.
std::string how_to_record() {
  return "a trace of the PyTorch profiler is {\"traceEvents\": [...]}, plain or .gz, as "
         "torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) writes with "
         "export_chrome_trace(\"trace.json.gz\")";
}

}  // namespace

model::Result<Trace> read_trace(const std::string& path, const Progress& progress) {
  const auto file = TRY(opened(path));
  std::error_code unknown;
  const std::uint64_t size = fs::is_regular_file(path, unknown) ? fs::file_size(path, unknown) : 0;
  Trace trace;
  EventSplitter splitter(path, event_parser(path, trace));
  constexpr std::size_t piece = std::size_t{1} << 18;
  std::string text(piece, '\0');
  std::uint64_t unpacked = 0;
  for (bool first = true;; first = false) {
    const auto count = TRY(read_piece(file.get(), path, text));
    if (count == 0 && first && gzdirect(file.get()) != 0)
      return model::wrong_input_at(path, 0, "", "the file is empty", "record the trace again");
    if (count == 0) break;
    unpacked += count;
    TRY(check_growth(file.get(), path, unpacked));
    TRY(splitter.feed(std::string_view(text).substr(0, count)));
    if (progress) progress(static_cast<std::uint64_t>(std::max<z_off_t>(gzoffset(file.get()), 0)), size);
  }
  TRY(splitter.finish());
  trace.cut = splitter.cut();
  if (gzip_status(file.get()) == Z_BUF_ERROR)
    trace.cut += trace.cut.empty() ? "the gzip stream is cut off" : ": the gzip stream is cut off";
  read_properties(splitter.properties(), trace);
  return trace;
}

EventSplitter::EventSplitter(std::string path, Sink sink) : path_(std::move(path)), sink_(std::move(sink)) {}

Result<void> EventSplitter::feed(std::string_view piece) {
  std::size_t at = 0;
  if (offset_ == 0 && piece.starts_with(byte_order_mark)) at = byte_order_mark.size();
  while (at < piece.size()) {
    at = TRY(step(piece, at));
  }
  offset_ += piece.size();
  return {};
}

Result<void> EventSplitter::finish() {
  if (state_ == State::start) return wrong("there is nothing but blanks in it", how_to_record());
  if (state_ != State::end) {
    cut_ = fmt::format("the JSON ends early, at byte {} behind {} complete events", offset_, events_);
    if (!found_events_) return wrong(cut_, "the profiler was interrupted, or the file is not complete");
    drop_open_event();
  }
  if (!found_events_) return wrong("JSON without traceEvents", how_to_record());
  return flush();
}

// Parses one element from `at` on; returns the position after it.
Result<std::size_t> EventSplitter::step(std::string_view piece, std::size_t at) {
  switch (state_) {
    case State::key:
      return through_key(piece, at);
    case State::property:
      return through_property(piece, at);
    case State::event:
      return through_event(piece, at);
    default:
      return is_space(piece[at]) ? at + 1 : expect(piece, at);
  }
}

// Handles a character between keys, values and events; it decides what comes next.
Result<std::size_t> EventSplitter::expect(std::string_view piece, std::size_t at) {
  using enum State;
  const char c = piece[at];
  const auto in = [&](State a, State b) { return state_ == a || state_ == b; };
  if (in(value, value) && begins_value(c)) return state_ == property ? at : at + 1;
  if (in(first_event, next_event) && c == '{') {
    begin_event(offset_ + at);
    return at;
  }
  if (in(first_key, next_key) && c == '"') {
    key_.clear();
    state_ = key;
  } else if (in(after_value, first_key) && c == '}') {
    state_ = end;
  } else if (in(after_event, first_event) && c == ']') {
    state_ = bare_ ? end : after_value;
  } else if (in(start, start) && c == '{') {
    state_ = first_key;
  } else if (in(start, start) && c == '[') {
    bare_ = found_events_ = true;
    state_ = first_event;
  } else if (in(colon, colon) && c == ':') {
    state_ = value;
  } else if (in(after_value, after_value) && c == ',') {
    state_ = next_key;
  } else if (in(after_event, after_event) && c == ',') {
    state_ = next_event;
  } else {
    return unexpected_character(c, offset_ + at);
  }
  return at + 1;
}

std::size_t EventSplitter::through_key(std::string_view piece, std::size_t at) {
  for (; at < piece.size(); ++at) {
    const char c = piece[at];
    if (!escaped_ && c == '"') {
      state_ = State::colon;
      return at + 1;
    }
    escaped_ = !escaped_ && c == '\\';
    if (key_.size() < largest_key) key_ += c;
  }
  return at;
}

bool EventSplitter::begins_value(char c) {
  if (std::string_view(",:}]").find(c) != std::string_view::npos) return false;
  depth_ = 0;
  value_.clear();
  const bool events = key_ == "traceEvents" && c == '[';
  state_ = events ? State::first_event : State::property;
  found_events_ = found_events_ || events;
  return true;
}

std::size_t EventSplitter::through_property(std::string_view piece, std::size_t at) {
  const std::size_t end = past_nested(piece, at, true);
  if (value_.size() <= largest_property) value_ += piece.substr(at, end - at);
  if (end == piece.size()) return end;
  if (value_.size() <= largest_property) properties_[key_] = value_;
  state_ = State::after_value;
  return end;
}

void EventSplitter::begin_event(std::uint64_t offset) {
  depth_ = 0;
  batch_.text += batch_.text.empty() ? '[' : ',';
  batch_.offsets.push_back(offset);
  event_start_ = batch_.text.size();
  state_ = State::event;
}

Result<std::size_t> EventSplitter::through_event(std::string_view piece, std::size_t at) {
  const std::size_t end = past_nested(piece, at, false);
  batch_.text += piece.substr(at, end - at);
  if (batch_.text.size() - event_start_ > largest_event)
    return wrong(
        fmt::format("event {} at byte {} is larger than {} MiB", events_, batch_.offsets.back(), largest_event >> 20),
        "a bracket or quote is not closed, or this is no trace");
  if (depth_ == 0 && !in_string_) {
    state_ = State::after_event;
    TRY(end_event());
  }
  return end;
}

// Returns the end of the current value: after its last bracket, or with stop_at_comma at the comma or closing bracket
// after it. Returns the end of the piece when the value continues.
std::size_t EventSplitter::past_nested(std::string_view piece, std::size_t at, bool stop_at_comma) {
  for (; at < piece.size(); ++at) {
    const char c = piece[at];
    if (in_string_) {
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else if (c == '"') {
        in_string_ = false;
      }
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if (c == '}' || c == ']') {
      if (depth_ == 0) return at;
      if (--depth_ == 0 && !stop_at_comma) return at + 1;
    } else if (c == ',' && depth_ == 0 && stop_at_comma) {
      return at;
    }
  }
  return at;
}

// Removes an event that the text ends in.
void EventSplitter::drop_open_event() {
  if (state_ != State::event) return;
  batch_.text.resize(event_start_ - 1);
  batch_.offsets.pop_back();
}

Result<void> EventSplitter::end_event() {
  ++events_;
  return batch_.text.size() < batch_bytes ? Result<void>() : flush();
}

Result<void> EventSplitter::flush() {
  if (batch_.offsets.empty()) return {};
  batch_.text += ']';
  auto taken = sink_(batch_);
  batch_.text.clear();
  batch_.offsets.clear();
  batch_.first = events_;
  return taken;
}

tl::unexpected<Error> EventSplitter::unexpected_character(char found, std::uint64_t offset) const {
  const bool printable = found > ' ' && found < '\x7f';
  const std::string what =
      printable ? fmt::format("'{}'", found) : fmt::format("byte 0x{:02x}", +static_cast<unsigned char>(found));
  if (state_ == State::start)
    return wrong(fmt::format("neither a JSON object nor an array: it begins with {}", what), how_to_record());
  return wrong(fmt::format("not JSON: {} at byte {}, behind {} events, is not expected there", what, offset, events_),
               "the file is damaged, or no trace of the PyTorch profiler");
}

tl::unexpected<Error> EventSplitter::wrong(std::string message, std::string hint) const {
  return model::wrong_input_at(path_, 0, "", std::move(message), std::move(hint));
}

}  // namespace plumbline::calibrate
