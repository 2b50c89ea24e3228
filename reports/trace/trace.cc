#include "reports/trace/trace.h"

#include <fmt/compile.h>
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <new>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "model/base/text.h"
#include "model/base/version.h"

namespace plumbline::reports {
namespace {

// A trace repeats itself so much that the fastest level already shrinks it more than tenfold.
constexpr int level = 1;
constexpr int gzip_window_bits = 15 + 16;  // zlib: 16 more asks for a gzip header, whose time stamp stays 0
constexpr int memory_level = 8;

}  // namespace

struct Gzip::State {
  z_stream stream{};
  std::array<char, 1 << 16> out{};
};

Gzip::Gzip(Sink sink) : sink_(std::move(sink)), state_(std::make_unique<State>()) {
  const int status =
      deflateInit2(&state_->stream, level, Z_DEFLATED, gzip_window_bits, memory_level, Z_DEFAULT_STRATEGY);
  if (status != Z_OK) throw std::bad_alloc();  // with fixed, valid settings only memory can run out
}

Gzip::~Gzip() { deflateEnd(&state_->stream); }

bool Gzip::write(std::string_view data) { return deflate_all(data, Z_NO_FLUSH); }

bool Gzip::finish() { return deflate_all({}, Z_FINISH); }

bool Gzip::deflate_all(std::string_view data, int flush) {
  z_stream& stream = state_->stream;
  // zlib only reads the input, but its C interface lacks the const.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  do {
    stream.next_out = reinterpret_cast<Bytef*>(state_->out.data());
    stream.avail_out = static_cast<uInt>(state_->out.size());
    deflate(&stream, flush);
    const std::size_t produced = state_->out.size() - stream.avail_out;
    if (produced > 0 && !sink_({state_->out.data(), produced})) return false;
  } while (stream.avail_out == 0);
  return true;
}

namespace {

// Buffers the text of a trace and passes it to the sink in pieces, compressed or not.
class TraceOutput {
 public:
  TraceOutput(const Gzip::Sink& sink, bool gzip) : sink_(sink) {
    if (gzip) gzip_.emplace(sink);
  }

  void add(std::string_view text) { buffer_.append(text.data(), text.data() + text.size()); }
  std::back_insert_iterator<fmt::memory_buffer> end() { return std::back_inserter(buffer_); }
  // Begins the next event of the list, which the caller adds.
  TraceOutput& next_event() {
    add(events_++ == 0 ? "\n" : ",\n");
    return *this;
  }

  // Ends an object whose members each end with a comma, or which is empty.
  void end_members() {
    if (buffer_.size() > 0 && buffer_[buffer_.size() - 1] == ',')
      buffer_[buffer_.size() - 1] = '}';
    else
      add("}");
  }

  // Return false once the sink has refused a piece.
  bool drain_if_full() { return buffer_.size() < piece_bytes || drain(); }
  bool finish() { return drain() && (!gzip_ || gzip_->finish()); }

 private:
  static constexpr std::size_t piece_bytes = 1 << 16;

  bool drain() {
    const std::string_view piece(buffer_.data(), buffer_.size());
    const bool taken = gzip_ ? gzip_->write(piece) : sink_(piece);
    buffer_.clear();
    return taken;
  }

  const Gzip::Sink& sink_;
  std::optional<Gzip> gzip_;
  fmt::memory_buffer buffer_;
  std::size_t events_ = 0;
};

using model::Span;
using model::Stream;

constexpr std::int64_t shortest_ps = 1000;  // a slice of a whole nanosecond, which an arrow can be attached to

bool is_forward(const Span& span) { return span.direction == model::Direction::forward; }

// Names of the tracks of a process. The first has the step, the second the slots.
constexpr std::array<std::string_view, 10> track_names = {
    "step",       "slots",   "compute",   "communication", "weight gradient",
    "collective", "to host", "from host", "pipeline",      "optimizer"};

// Messages and what runs outside of slots have no phases of their own: they are kernels.
bool is_kernel(const Span& span) {
  return span.depth == model::kernel_depth || span.stream == Stream::pipeline || span.stream == Stream::optimizer;
}

std::string_view category(const Span& span) {
  if (span.depth == model::slot_depth) return "slot";
  if (is_kernel(span)) return model::on_host_link(span.stream) ? "gpu_memcpy" : "kernel";
  if (model::on_host_link(span.stream)) return "host";
  if (span.stream == Stream::communication) return "communication";
  return span.stream == Stream::collective ? "collective" : "phase";
}

// Returns how NCCL's kernels of this class are called; of other communication, the start of their names.
std::string_view communication_prefix(std::string_view class_name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> names = {
      {{"all_reduce", "ncclKernel_AllReduce: "},
       {"all_gather", "ncclKernel_AllGather: "},
       {"reduce_scatter", "ncclKernel_ReduceScatter: "},
       {"exchange_heads", "ncclKernel_SendRecv: "},
       {"point_to_point", "ncclKernel_SendRecv: "}}};
  const auto* found = std::ranges::find(names, class_name, &std::pair<std::string_view, std::string_view>::first);
  return found == names.end() ? "ncclKernel: " : found->second;
}

bool communicates(const Span& span) {
  return span.stream == Stream::communication || span.stream == Stream::collective || span.stream == Stream::pipeline ||
         (span.stream == Stream::optimizer && span.work >= 0);
}

std::string_view name_prefix(const Span& span, const model::Timeline& timeline) {
  if (!is_kernel(span)) return "";
  if (span.stream == Stream::to_host) return "Memcpy DtoH: ";
  if (span.stream == Stream::from_host) return "Memcpy HtoD: ";
  if (!communicates(span)) return "";
  return communication_prefix(span.work < 0 ? "" : timeline.works[static_cast<std::size_t>(span.work)].class_name);
}

std::string_view text_of(model::Direction direction) {
  constexpr std::array<std::string_view, 6> texts = {
      "", "forward", "backward", "input gradient", "weight gradient", "forward and backward"};
  return texts[static_cast<std::size_t>(direction)];
}

// Returns the layers of a stage as "27-30"; blocks without one (embedding, head) are left out.
std::string layer_range(const std::vector<std::int32_t>& layers) {
  std::int32_t first = -1, last = -1;
  for (const std::int32_t layer : layers) {
    if (layer < 0) continue;
    first = first < 0 ? layer : std::min(first, layer);
    last = std::max(last, layer);
  }
  if (first < 0) return "";
  return first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
}

// Returns the text for the inside of a JSON string, which escapes as TOML does.
std::string escaped(std::string_view text) {
  const std::string quoted = model::toml_string(text);
  return quoted.substr(1, quoted.size() - 2);
}

std::string work_members(const model::SpanWork& work) {
  std::string text;
  if (!work.class_name.empty()) text += fmt::format(R"("class":"{}",)", escaped(work.class_name));
  if (work.flops > 0) text += fmt::format(R"("flops":{:.0f},)", work.flops);
  if (work.bytes > 0) text += fmt::format(R"("bytes":{:.0f},)", work.bytes);
  return text;
}

// A rank's number outside: of the pipeline, or of a GPU of a cluster.
std::int32_t number_of(const model::Timeline& timeline, std::int32_t rank) {
  return timeline.gpus.empty() ? rank : timeline.gpus[static_cast<std::size_t>(rank)];
}

// The arrows of a trace: from messages between stages, and from dispatch and combine, to the compute that waits for
// them. It is the first phase of the same micro-batch, stage and direction that begins after a message has begun, or
// after dispatch or combine has ended.
class Flows {
 public:
  // The timeline must outlive the object.
  explicit Flows(const model::Timeline& timeline) {
    for (const Span& span : timeline.spans) {
      const bool computes = span.depth == model::phase_depth && span.stream == Stream::compute;
      if (!computes || span.stage < 0 || span.direction == model::Direction::weight_gradient) continue;
      if (span.duration_ps >= shortest_ps)
        phases_[{span.rank, span.stage, span.micro_batch, is_forward(span)}].push_back(&span);
    }
    for (auto& [key, phases] : phases_) std::ranges::stable_sort(phases, {}, &Span::start_ps);
  }

  // Returns the phase at the head of the arrow from a span, or nullptr where the span has none.
  const Span* head(const Span& span) const {
    if (span.depth != model::phase_depth || span.stage < 0 || span.duration_ps < shortest_ps) return nullptr;
    Key key{span.rank, span.stage, span.micro_batch, is_forward(span)};
    std::int64_t from = span.end_ps();
    if (span.stream == Stream::pipeline) {
      if (span.peer < 0) return nullptr;
      from = span.start_ps;  // a measured one may last until other messages of its batch have arrived
      key = {span.peer, span.stage + (is_forward(span) ? 1 : -1), span.micro_batch, is_forward(span)};
    } else if (span.stream != Stream::communication) {
      return nullptr;
    }
    const auto found = phases_.find(key);
    if (found == phases_.end()) return nullptr;
    const auto first = std::ranges::lower_bound(found->second, from, {}, &Span::start_ps);
    return first == found->second.end() ? nullptr : *first;
  }

 private:
  using Key = std::tuple<std::int32_t, std::int32_t, std::int32_t, bool>;  // rank, stage, micro-batch, forward
  std::map<Key, std::vector<const Span*>> phases_;                         // by start
};

std::size_t track_of(const Span& span) {
  if (span.depth == model::slot_depth && span.stream == Stream::compute) return 1;
  return 2 + static_cast<std::size_t>(span.stream);
}

// Both ends of a span, cut to whole nanoseconds.
struct SliceTime {
  std::int64_t start_ns = 0, end_ns = 0;
};

SliceTime slice_time(const Span& span) {
  constexpr std::int64_t ps_per_ns = 1000;
  return {span.start_ps / ps_per_ns, span.end_ps() / ps_per_ns};
}

// Adds the event of every slice of a timeline. Holistic Trace Analysis and others take slices with args.stream for
// kernels, names that begin with "ncclKernel" for communication, and "Memcpy" for copies.
class Slices {
 public:
  // The timeline must outlive the object.
  explicit Slices(const model::Timeline& timeline) : timeline_(timeline) {
    for (const std::string& name : timeline.names) names_.push_back(escaped(name));
    for (const model::SpanWork& work : timeline.works) works_.push_back(work_members(work));
    for (const auto& layers : timeline.stage_layers) stage_layers_.push_back(layer_range(layers));
  }

  void add(TraceOutput& output, const Span& span, std::int64_t process) {
    const SliceTime time = slice_time(span);
    const std::int64_t length = time.end_ns - time.start_ns;
    const std::size_t track = track_of(span);
    output.next_event();
    fmt::format_to(
        output.end(),
        FMT_COMPILE(R"({{"ph":"X","cat":"{}","name":"{}{}","pid":{},"tid":{},"ts":{}.{:03},"dur":{}.{:03},"args":{{)"),
        category(span), name_prefix(span, timeline_), names_[span.name], process, track, time.start_ns / 1000,
        time.start_ns % 1000, length / 1000, length % 1000);
    const auto number = [&output](std::string_view key, std::int64_t value) {
      if (value >= 0) fmt::format_to(output.end(), FMT_COMPILE(R"("{}":{},)"), key, value);
    };
    const auto layers = [&](std::string_view key, std::int32_t stage) {
      const auto index = static_cast<std::size_t>(stage);
      if (stage >= 0 && index < stage_layers_.size() && !stage_layers_[index].empty())
        fmt::format_to(output.end(), FMT_COMPILE(R"("{}":"{}",)"), key, stage_layers_[index]);
    };
    number("stage", span.stage);
    number("chunk", span.chunk);
    if (span.direction != model::Direction::none)
      fmt::format_to(output.end(), FMT_COMPILE(R"("direction":"{}",)"), text_of(span.direction));
    if (span.depth == model::slot_depth) layers("layers", span.stage);
    number("layer", span.layer);
    number("micro_batch", span.micro_batch);
    number("backward_stage", span.overlapped_stage);
    layers("backward_layers", span.overlapped_stage);
    number("backward_micro_batch", span.overlapped_micro_batch);
    number("to_rank", span.peer);
    if (span.work >= 0) output.add(works_[static_cast<std::size_t>(span.work)]);
    if (is_kernel(span)) {
      number("device", process);
      number("stream", static_cast<std::int64_t>(track));
      number("correlation", ++correlation_);
    }
    output.end_members();
    output.add("}");
  }

 private:
  const model::Timeline& timeline_;
  std::vector<std::string> names_, works_, stage_layers_;  // as JSON
  std::int64_t correlation_ = 0;                           // of kernels, counted
};

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

  const model::Timeline& timeline() const { return timeline_; }
  bool shows(std::int32_t rank) const {
    return rank >= 0 && rank < timeline_.ranks && !used_[static_cast<std::size_t>(rank)].empty();
  }

  // Adds name and order of a rank's process and of those tracks that have a span, and the step.
  bool add_rank(std::int32_t rank) {
    if (!shows(rank)) return true;
    const auto given = static_cast<std::size_t>(rank);
    const std::string name =
        given < subject_.rank_names.size() ? subject_.rank_names[given] : fmt::format("rank {}", rank);
    add_metadata(
        "process_name", rank, 0,
        fmt::format(R"("name":"{}{}{}")", escaped(subject_.label), subject_.label.empty() ? "" : " ", escaped(name)));
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
    add_metadata("thread_name", rank, track, fmt::format(R"("name":"{}")", track_names[track]));
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
  const model::Timeline& timeline_;
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
    const model::Timeline& timeline = *one.timeline;
    fmt::format_to(output.end(), R"("fidelity":"{}","ranks":"{}","plan":"{}")", escaped(one.fidelity),
                   timeline.gpus.empty() ? "of the pipeline" : "GPUs", escaped(one.plan));
  };
  fmt::format_to(output.end(), R"(,"otherData":{{"version":"{}","revision":"{}",)", model::version, escaped(revision));
  if (subjects.size() == 1) {
    subject(subjects.front());
  } else {
    output.add(R"("subjects":[)");
    for (std::size_t i = 0; i < subjects.size(); ++i) {
      fmt::format_to(output.end(), R"({}{{"label":"{}",)", i == 0 ? "" : ",", escaped(subjects[i].label));
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
