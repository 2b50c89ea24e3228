#include "calibrate/import/kineto/trace.h"

#include "calibrate/import/kineto/byte_source.h"
#include "calibrate/import/kineto/event_parser.h"
#include "calibrate/import/kineto/event_splitter.h"
#include "calibrate/import/kineto/trace_properties.h"

namespace plumbline::calibrate {

std::uint32_t Names::number(std::string_view text) {
  if (const auto found = numbers_.find(text); found != numbers_.end()) return found->second;
  const auto next = static_cast<std::uint32_t>(texts_.size());
  numbers_.emplace(texts_.emplace_back(text), next);
  return next;
}

model::Result<Trace> read_trace(const std::string& path, const Progress& progress) {
  auto source = ByteSource::open(path);
  if (!source) return tl::unexpected(source.error());
  Trace trace;
  EventParser parser(path, trace);
  EventSplitter splitter(path, [&](EventBatch& batch) { return parser.read(batch); });
  constexpr std::size_t piece = std::size_t{1} << 18;
  std::string text(piece, '\0');
  while (true) {
    const auto count = source->read(text.data(), text.size());
    if (!count) return tl::unexpected(count.error());
    if (*count == 0) break;
    if (const auto fed = splitter.feed(std::string_view(text).substr(0, *count)); !fed)
      return tl::unexpected(fed.error());
    if (progress) progress(source->file_position(), source->file_size());
  }
  if (const auto finished = splitter.finish(); !finished) return tl::unexpected(finished.error());
  read_properties(splitter.properties(), trace);
  return trace;
}

}  // namespace plumbline::calibrate
