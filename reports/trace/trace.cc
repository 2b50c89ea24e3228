#include "reports/trace/trace.h"

#include <fmt/compile.h>
#include <fmt/format.h>

#include <array>
#include <iterator>
#include <optional>

#include "reports/text/format.h"
#include "reports/trace/detail/gzip.h"

namespace plumbline::reports {
namespace {

using model::Span;
using model::Stream;
using model::Timeline;

constexpr std::size_t piece_bytes = 1 << 16;
constexpr std::array<std::string_view, 9> track_names = {"slots",           "compute",    "communication",
                                                         "weight gradient", "collective", "to host",
                                                         "from host",       "pipeline",   "optimizer"};

std::size_t track_of(const Span& span) {
  if (span.depth == 0 && span.stream == Stream::compute) return 0;
  return 1 + static_cast<std::size_t>(span.stream);
}

void append(fmt::memory_buffer& out, std::string_view text) { out.append(text.data(), text.data() + text.size()); }

// Buffers text and passes it to the sink in pieces, compressed or not.
class Output {
 public:
  Output(const Sink& sink, bool gzip) : sink_(sink) {
    if (gzip) gzip_.emplace(sink);
  }
  fmt::memory_buffer& buffer() { return buffer_; }
  fmt::memory_buffer& next_event() {
    append(buffer_, events_++ == 0 ? "\n" : ",\n");
    return buffer_;
  }
  bool drain_if_full() { return buffer_.size() < piece_bytes || drain(); }
  bool finish() { return drain() && (!gzip_ || gzip_->finish()); }

 private:
  bool drain() {
    const std::string_view piece(buffer_.data(), buffer_.size());
    const bool ok = gzip_ ? gzip_->write(piece) : sink_(piece);
    buffer_.clear();
    return ok;
  }

  const Sink& sink_;
  std::optional<Gzip> gzip_;
  fmt::memory_buffer buffer_;
  std::size_t events_ = 0;
};

void append_metadata(Output& output, std::string_view kind, std::int64_t process, std::size_t thread,
                     std::string_view argument) {
  fmt::format_to(std::back_inserter(output.next_event()),
                 FMT_COMPILE(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{{}}}}})"), kind, process, thread,
                 argument);
}

using Tracks = std::array<bool, track_names.size()>;

Tracks tracks_of(const Timeline& timeline) {
  Tracks used{};
  for (const Span& span : timeline.spans) used[track_of(span)] = true;
  return used;
}

std::string process_name(const TraceSubject& subject, std::int32_t rank) {
  const auto index = static_cast<std::size_t>(rank);
  const std::string name = index < subject.rank_names.size() ? subject.rank_names[index] : fmt::format("rank {}", rank);
  return subject.label.empty() ? name : subject.label + " " + name;
}

// The position of a timeline's processes among those of all timelines.
struct ProcessOrder {
  std::int64_t subject = 0, subjects = 1;
  std::int64_t process(std::int32_t rank) const { return rank * subjects + subject; }
};

// Writes name and order of the process and of those tracks that have a span.
void append_names(Output& output, const TraceSubject& subject, const ProcessOrder& order, const Tracks& used,
                  std::int32_t rank) {
  const std::int64_t process = order.process(rank);
  append_metadata(output, "process_name", process, 0,
                  fmt::format(R"("name":"{}")", escape_json(process_name(subject, rank))));
  append_metadata(output, "process_sort_index", process, 0, fmt::format(R"("sort_index":{})", process));
  for (std::size_t track = 0; track < used.size(); ++track) {
    if (!used[track]) continue;
    append_metadata(output, "thread_name", process, track + 1, fmt::format(R"("name":"{}")", track_names[track]));
    append_metadata(output, "thread_sort_index", process, track + 1, fmt::format(R"("sort_index":{})", track));
  }
}

void append_span(fmt::memory_buffer& out, const Span& span, std::string_view name, std::int64_t process) {
  constexpr std::int64_t ps_per_ns = 1000;
  const std::int64_t start = span.start_ps / ps_per_ns;
  const std::int64_t length = (span.start_ps + span.duration_ps) / ps_per_ns - start;
  const auto end = std::back_inserter(out);
  fmt::format_to(end, FMT_COMPILE(R"({{"ph":"X","name":"{}","pid":{},"tid":{},"ts":{}.{:03},"dur":{}.{:03})"), name,
                 process, track_of(span) + 1, start / 1000, start % 1000, length / 1000, length % 1000);
  if (span.layer >= 0 && span.micro_batch >= 0) {
    fmt::format_to(end, FMT_COMPILE(R"(,"args":{{"layer":{},"micro_batch":{}}})"), span.layer, span.micro_batch);
  } else if (span.layer >= 0) {
    fmt::format_to(end, FMT_COMPILE(R"(,"args":{{"layer":{}}})"), span.layer);
  } else if (span.micro_batch >= 0) {
    fmt::format_to(end, FMT_COMPILE(R"(,"args":{{"micro_batch":{}}})"), span.micro_batch);
  }
  out.push_back('}');
}

bool append_spans(Output& output, const Timeline& timeline, const ProcessOrder& order) {
  std::vector<std::string> names;
  names.reserve(timeline.names.size());
  for (const std::string& name : timeline.names) names.push_back(escape_json(name));
  for (const Span& span : timeline.spans) {
    append_span(output.next_event(), span, names[span.name], order.process(span.rank));
    if (!output.drain_if_full()) return false;
  }
  return true;
}

std::string collected(const std::function<bool(const Sink&)>& write) {
  std::string text;
  write([&text](std::string_view piece) {
    text += piece;
    return true;
  });
  return text;
}

}  // namespace

bool write_trace(const std::vector<TraceSubject>& subjects, bool gzip, const Sink& sink) {
  Output output(sink, gzip);
  append(output.buffer(), "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
  const auto count = static_cast<std::int64_t>(subjects.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const TraceSubject& subject = subjects[static_cast<std::size_t>(i)];
    const Tracks used = tracks_of(*subject.timeline);
    for (std::int32_t rank = 0; rank < subject.timeline->ranks; ++rank) {
      append_names(output, subject, {i, count}, used, rank);
      if (!output.drain_if_full()) return false;
    }
  }
  for (std::int64_t i = 0; i < count; ++i)
    if (!append_spans(output, *subjects[static_cast<std::size_t>(i)].timeline, {i, count})) return false;
  append(output.buffer(), "\n]}\n");
  return output.finish();
}

std::string to_trace(const std::vector<TraceSubject>& subjects, bool gzip) {
  return collected([&](const Sink& sink) { return write_trace(subjects, gzip, sink); });
}

bool write_trace(const Timeline& timeline, const std::vector<std::string>& rank_names, bool gzip, const Sink& sink) {
  return write_trace({{"", &timeline, rank_names}}, gzip, sink);
}

std::string to_trace(const Timeline& timeline, const std::vector<std::string>& rank_names, bool gzip) {
  return to_trace({{"", &timeline, rank_names}}, gzip);
}

}  // namespace plumbline::reports
