#include "calibrate/import/kineto/detail/event_parser.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "calibrate/import/kineto/detail/event_keeper.h"

namespace plumbline::calibrate {
namespace {

namespace ondemand = simdjson::ondemand;
using detail::Arguments;
using detail::Category;
using detail::Event;
using model::Error;
using model::Result;
using std::string_view;

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
    const auto number = [&] { return detail::whole_number(trimmed(item.raw_json_token())); };
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
      event.category = detail::category_of(text_of(value));
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

}  // namespace

// Kernels and copies of a trace. Each takes up to 1.1 kB with its place and its text (608 MB for 500,000 of one step).
constexpr std::size_t most_work = std::size_t{1} << 23;

struct EventParser::State {
  std::string path;
  Trace& trace;
  detail::EventKeeper keeper;
  ondemand::parser parser;

  State(std::string file, Trace& result) : path(std::move(file)), trace(result), keeper(result) {}

  tl::unexpected<Error> wrong(const EventBatch& batch, std::size_t index, const std::string& what) const {
    const std::uint64_t offset = batch.offsets.at(std::min(index, batch.offsets.size() - 1));
    return model::wrong_input_at(path, 0, "", fmt::format("event {} at byte {}: {}", batch.first + index, offset, what),
                                 "the trace is damaged; record it again");
  }
};

EventParser::EventParser(std::string path, Trace& trace) : state_(std::make_unique<State>(std::move(path), trace)) {}
EventParser::~EventParser() = default;

Result<void> EventParser::read(EventBatch& batch) {
  make_readable(batch.text);
  const std::size_t size = batch.text.size();
  batch.text.append(simdjson::SIMDJSON_PADDING, ' ');
  ondemand::document document;
  ondemand::array events;
  auto error = state_->parser.iterate(batch.text.data(), size, batch.text.size()).get(document);
  if (error == simdjson::SUCCESS) error = document.get_array().get(events);
  if (error != simdjson::SUCCESS)
    return state_->wrong(batch, 0, fmt::format("not JSON from there on: {}", simdjson::error_message(error)));
  std::size_t index = 0;
  for (auto item : events) {
    Event event;
    ondemand::object object;
    error = item.get_object().get(object);
    if (error == simdjson::SUCCESS) error = read_event(object, event);
    if (error != simdjson::SUCCESS)
      return state_->wrong(batch, index, fmt::format("not JSON: {}", simdjson::error_message(error)));
    constexpr std::size_t shown = 60;
    if (const std::string problem = state_->keeper.keep(event); !problem.empty())
      return state_->wrong(batch, index, fmt::format("'{}': {}", event.name.substr(0, shown), problem));
    ++index;
  }
  state_->trace.events += batch.offsets.size();
  if (state_->trace.work.size() > most_work)
    return model::wrong_input_at(state_->path, 0, "", fmt::format("more than {} kernels and copies", most_work),
                                 "record fewer steps: torch.profiler.schedule(wait=1, warmup=1, active=1)");
  return {};
}

}  // namespace plumbline::calibrate
