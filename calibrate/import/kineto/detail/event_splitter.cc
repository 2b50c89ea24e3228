#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "calibrate/import/kineto/detail/events.h"

namespace plumbline::calibrate {
namespace {

using model::Error;
using model::Result;

constexpr std::size_t batch_bytes = std::size_t{1} << 20;
constexpr std::size_t largest_event = std::size_t{64} << 20;
constexpr std::size_t largest_property = std::size_t{1} << 20;
constexpr std::size_t largest_key = 4096;
constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

}  // namespace

std::string how_to_record() {
  return "a trace of the PyTorch profiler is {\"traceEvents\": [...]}, plain or .gz, as "
         "torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) writes with "
         "export_chrome_trace(\"trace.json.gz\")";
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
