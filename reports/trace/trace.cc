#include "reports/trace/trace.h"

#include <fmt/compile.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <set>

#include "model/base/version.h"
#include "reports/text/table.h"
#include "reports/trace/detail/flows.h"
#include "reports/trace/detail/slices.h"
#include "reports/trace/detail/trace_output.h"

namespace plumbline::reports {
namespace {

using model::Span;
using model::Stream;
using model::Timeline;

// A rank's number outside: of the pipeline, or of a GPU of a cluster.
std::int32_t number_of(const Timeline& timeline, std::int32_t rank) {
  return timeline.gpus.empty() ? rank : timeline.gpus[static_cast<std::size_t>(rank)];
}

// One timeline of a file.
class SubjectWriter {
 public:
  SubjectWriter(TraceOutput& output, const TraceSubject& subject, std::int64_t index, std::int64_t subjects,
                const std::vector<std::int32_t>& wanted)
      : output_(output), subject_(subject), timeline_(*subject.timeline), index_(index), subjects_(subjects) {
    used_.resize(static_cast<std::size_t>(timeline_.ranks));
    for (const Span& span : timeline_.spans) {
      const bool shown = wanted.empty() || std::ranges::find(wanted, number_of(timeline_, span.rank)) != wanted.end();
      if (shown) used_[static_cast<std::size_t>(span.rank)].insert(track_of(span));
    }
  }

  const Timeline& timeline() const { return timeline_; }
  bool shows(std::int32_t rank) const {
    return rank >= 0 && rank < timeline_.ranks && !used_[static_cast<std::size_t>(rank)].empty();
  }

  // Adds name and order of a rank's process and of those tracks that have a span, and the step.
  bool add_rank(std::int32_t rank) {
    if (!shows(rank)) return true;
    const auto given = static_cast<std::size_t>(rank);
    const std::string name =
        given < subject_.rank_names.size() ? subject_.rank_names[given] : fmt::format("rank {}", rank);
    add_metadata("process_name", rank, 0,
                 fmt::format(R"("name":"{}{}{}")", escape_json(subject_.label), subject_.label.empty() ? "" : " ",
                             escape_json(name)));
    add_metadata("process_sort_index", rank, 0, fmt::format(R"("sort_index":{})", process(rank)));
    add_track(rank, 0);
    for (const std::size_t track : used_[given]) add_track(rank, track);
    const std::int64_t end_ns = timeline_.end_ps / 1000;
    output_.next_event();
    fmt::format_to(
        output_.end(),
        FMT_COMPILE(
            R"({{"ph":"X","cat":"user_annotation","name":"ProfilerStep#0","pid":{},"tid":0,"ts":0,"dur":{}.{:03}}})"),
        process(rank), end_ns / 1000, end_ns % 1000);
    return output_.drain_if_full();
  }

  bool add_spans() {
    Slices slices(timeline_);
    for (const Span& span : timeline_.spans) {
      if (!shows(span.rank)) continue;
      slices.add(output_, span, process(span.rank));
      if (!output_.drain_if_full()) return false;
    }
    return true;
  }

  bool add_counters() {
    for (const model::Counter& counter : timeline_.counters) {
      if (!shows(counter.rank)) continue;
      for (const model::Counter::Sample& sample : counter.samples) {
        const std::int64_t time_ns = sample.time_ps / 1000;
        output_.next_event();
        fmt::format_to(output_.end(), FMT_COMPILE(R"({{"ph":"C","name":"{}","pid":{},"ts":{}.{:03},"args":{{)"),
                       counter.name, process(counter.rank), time_ns / 1000, time_ns % 1000);
        for (std::size_t series = 0; series < counter.series.size(); ++series)
          fmt::format_to(output_.end(), FMT_COMPILE(R"("{}":{:.0f},)"), counter.series[series], sample.values[series]);
        output_.end_members();
        output_.add("}");
        if (!output_.drain_if_full()) return false;
      }
    }
    return true;
  }

  // Ids of arrows count on over all subjects.
  bool add_flows(std::int64_t& id) {
    const Flows flows(timeline_);
    for (const Span& span : timeline_.spans) {
      const Span* head = shows(span.rank) ? flows.head(span) : nullptr;
      if (head == nullptr || !shows(head->rank)) continue;
      const bool message = span.stream == Stream::pipeline;
      const std::string_view name = message ? "message" : "tokens";
      const SliceTime tail = slice_time(span);
      add_flow_end("s", name, id, span, message ? tail.start_ns : tail.end_ns - 1, "");
      add_flow_end("f", name, id++, *head, slice_time(*head).start_ns, R"(,"bp":"e")");
      if (!output_.drain_if_full()) return false;
    }
    return true;
  }

 private:
  std::int64_t process(std::int32_t rank) const { return rank * subjects_ + index_; }

  void add_metadata(std::string_view kind, std::int32_t rank, std::size_t track, std::string_view argument) {
    output_.next_event();
    fmt::format_to(output_.end(), FMT_COMPILE(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{{}}}}})"), kind,
                   process(rank), track, argument);
  }

  void add_track(std::int32_t rank, std::size_t track) {
    add_metadata("thread_name", rank, track, fmt::format(R"("name":"{}")", track_name(track)));
    add_metadata("thread_sort_index", rank, track, fmt::format(R"("sort_index":{})", track));
  }

  void add_flow_end(std::string_view phase, std::string_view name, std::int64_t id, const Span& span,
                    std::int64_t time_ns, std::string_view more) {
    output_.next_event();
    fmt::format_to(output_.end(),
                   FMT_COMPILE(R"({{"ph":"{}","cat":"flow","name":"{}","id":{},"pid":{},"tid":{},"ts":{}.{:03}{}}})"),
                   phase, name, id, process(span.rank), track_of(span), time_ns / 1000, time_ns % 1000, more);
  }

  TraceOutput& output_;
  const TraceSubject& subject_;
  const Timeline& timeline_;
  std::int64_t index_, subjects_;
  std::vector<std::set<std::size_t>> used_;  // [rank]: its tracks; none: it is not written
};

// A file of a single rank has its number, as profilers write it.
void add_distributed_info(TraceOutput& output, const std::vector<SubjectWriter>& writers) {
  std::set<std::int32_t> ranks;
  for (const SubjectWriter& writer : writers)
    for (std::int32_t rank = 0; rank < writer.timeline().ranks; ++rank)
      if (writer.shows(rank)) ranks.insert(number_of(writer.timeline(), rank));
  output.add(R"("distributedInfo":{"backend":"nccl",)");
  if (ranks.size() == 1) fmt::format_to(output.end(), R"("rank":{},)", *ranks.begin());
  if (!writers.empty() && writers.front().timeline().gpus.empty())
    fmt::format_to(output.end(), R"("world_size":{},)", writers.front().timeline().ranks);
  output.end_members();
}

void add_other_data(TraceOutput& output, const std::vector<TraceSubject>& subjects, const std::string& revision) {
  const auto subject = [&](const TraceSubject& one) {
    const Timeline& timeline = *one.timeline;
    fmt::format_to(output.end(), R"("fidelity":"{}","ranks":"{}","plan":"{}")", escape_json(one.fidelity),
                   timeline.gpus.empty() ? "of the pipeline" : "GPUs", escape_json(one.plan));
  };
  fmt::format_to(output.end(), R"(,"otherData":{{"version":"{}","revision":"{}",)", model::version,
                 escape_json(revision));
  if (subjects.size() == 1) {
    subject(subjects.front());
  } else {
    output.add(R"("subjects":[)");
    for (std::size_t i = 0; i < subjects.size(); ++i) {
      fmt::format_to(output.end(), R"({}{{"label":"{}",)", i == 0 ? "" : ",", escape_json(subjects[i].label));
      subject(subjects[i]);
      output.add("}");
    }
    output.add("]");
  }
  output.add("}");
}

}  // namespace

bool write_trace(const std::vector<TraceSubject>& subjects, const TraceOptions& options, const Sink& sink) {
  TraceOutput output(sink, options.gzip);
  std::vector<SubjectWriter> writers;
  std::int32_t ranks = 0;
  for (const TraceSubject& subject : subjects) {
    writers.emplace_back(output, subject, static_cast<std::int64_t>(writers.size()),
                         static_cast<std::int64_t>(subjects.size()), options.ranks);
    ranks = std::max(ranks, subject.timeline->ranks);
  }
  fmt::format_to(output.end(), R"({{"schemaVersion":{},"displayTimeUnit":"ms",)", model::schema);
  add_distributed_info(output, writers);
  add_other_data(output, subjects, options.revision);
  output.add(R"(,"traceEvents":[)");
  std::int64_t flow = 0;
  for (std::int32_t rank = 0; rank < ranks; ++rank)
    for (SubjectWriter& writer : writers)
      if (!writer.add_rank(rank)) return false;
  for (SubjectWriter& writer : writers)
    if (!writer.add_spans() || !writer.add_counters() || !writer.add_flows(flow)) return false;
  output.add("\n]}\n");
  return output.finish();
}

}  // namespace plumbline::reports
