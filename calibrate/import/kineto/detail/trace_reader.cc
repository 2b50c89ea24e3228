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

#include "calibrate/import/kineto/detail/events.h"
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

}  // namespace

model::Result<Trace> read_trace(const std::string& path, const Progress& progress) {
  const auto file = TRY(opened(path));
  std::error_code unknown;
  const std::uint64_t size = fs::is_regular_file(path, unknown) ? fs::file_size(path, unknown) : 0;
  Trace trace;
  EventParser parser(path, trace);
  EventSplitter splitter(path, [&](EventBatch& batch) { return parser.read(batch); });
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

}  // namespace plumbline::calibrate
