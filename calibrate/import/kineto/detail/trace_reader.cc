#include "calibrate/import/kineto/detail/trace_reader.h"

#include <simdjson.h>

#include <optional>
#include <string_view>

#include "calibrate/import/kineto/detail/byte_source.h"
#include "calibrate/import/kineto/detail/event_parser.h"
#include "calibrate/import/kineto/detail/event_splitter.h"

namespace plumbline::calibrate {
namespace {

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
    trace.rank = int_at(element, "rank").value_or(-1);
    trace.world_size = int_at(element, "world_size").value_or(0);
  });
  with_property(properties, "otherData", [&](const simdjson::dom::element& element) {
    std::string_view ranks;
    trace.of_pipeline = element["ranks"].get(ranks) == simdjson::SUCCESS && ranks == "of the pipeline";
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

}  // namespace

model::Result<Trace> read_trace(const std::string& path, const Progress& progress) {
  auto source = TRY(ByteSource::open(path));
  Trace trace;
  EventParser parser(path, trace);
  EventSplitter splitter(path, [&](EventBatch& batch) { return parser.read(batch); });
  constexpr std::size_t piece = std::size_t{1} << 18;
  std::string text(piece, '\0');
  while (true) {
    const auto count = TRY(source.read(text.data(), text.size()));
    if (count == 0) break;
    TRY(splitter.feed(std::string_view(text).substr(0, count)));
    if (progress) progress(source.file_position(), source.file_size());
  }
  TRY(splitter.finish());
  trace.cut = splitter.cut();
  if (source.cut()) trace.cut += trace.cut.empty() ? "the gzip stream is cut off" : ": the gzip stream is cut off";
  read_properties(splitter.properties(), trace);
  return trace;
}

}  // namespace plumbline::calibrate
