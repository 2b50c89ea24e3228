#include "reports/trace/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "tests/support/example_result.h"
#include "tests/support/gunzipped.h"

namespace plumbline::reports {
namespace {

using Json = nlohmann::json;

// Returns a trace as one text.
std::string text_of(const std::vector<TraceSubject>& subjects, const TraceOptions& options = {}) {
  std::string text;
  EXPECT_TRUE(write_trace(subjects, options, [&text](std::string_view piece) {
    text += piece;
    return true;
  }));
  return text;
}

std::string text_of(const model::Timeline& timeline, const std::vector<std::string>& names, bool gzip = false) {
  return text_of({{"", &timeline, names, "step", "[model]\nconfig = \"m.json\"\n"}}, {"abc", gzip, {}});
}

struct Slice {
  std::int64_t start_ns, end_ns;
};

// Returns a viewer's microseconds as nanoseconds, rounded.
std::int64_t nanoseconds(const Json& microseconds) { return std::llround(microseconds.get<double>() * 1000); }

std::map<std::pair<int, int>, std::vector<Slice>> tracks_of(const Json& trace) {
  std::map<std::pair<int, int>, std::vector<Slice>> tracks;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const std::int64_t start = nanoseconds(event["ts"]);
    tracks[{event["pid"], event["tid"]}].push_back({start, start + nanoseconds(event["dur"])});
  }
  return tracks;
}

TEST(Trace, NamesProcessesAndTracks) {
  const Json trace = Json::parse(text_of(support::example_timeline(), support::example_rank_names()));
  std::map<int, std::string> processes;
  std::map<std::pair<int, int>, std::string> threads;
  for (const Json& event : trace["traceEvents"]) {
    if (event["name"] == "process_name") processes[event["pid"]] = event["args"]["name"];
    if (event["name"] == "thread_name") threads[{event["pid"], event["tid"]}] = event["args"]["name"];
  }
  EXPECT_EQ(processes.size(), 16u);
  EXPECT_EQ(processes[3], "rank 3 (stages 3, 12)");
  std::set<std::string> names;
  for (const auto& [track, slices] : tracks_of(trace)) names.insert(threads.at(track));
  EXPECT_EQ(names, (std::set<std::string>{"step", "slots", "compute", "communication"}));
}

TEST(Trace, HoldsEverySpanExactly) {
  model::Timeline timeline;
  timeline.names = {"a \"b\"\\c"};
  timeline.ranks = 1;
  // 1.234567890 s and 0.000999 us, in picoseconds: cut to whole nanoseconds at both ends.
  timeline.spans = {{0, 0, model::Stream::pipeline, -1, 7, 1'234'567'890'999, 2'002, 0}};
  const std::string text = text_of(timeline, {});
  // start 1234567890.999 ns -> 1234567890; end ..893.001 -> ..893; length 3 ns = 0.003 us.
  EXPECT_NE(
      text.find(
          R"("tid":8,"ts":1234567.890,"dur":0.003,"args":{"micro_batch":7,"device":0,"stream":8,"correlation":1}})"),
      std::string::npos)
      << text;
  EXPECT_EQ(Json::parse(text)["traceEvents"].back()["name"], "ncclKernel: a \"b\"\\c");
}

// Returns the number of slices.
std::size_t expect_nested(const Json& trace) {
  std::size_t slices_seen = 0;
  for (auto& [track, slices] : tracks_of(trace)) {
    std::stable_sort(slices.begin(), slices.end(), [](Slice a, Slice b) { return a.start_ns < b.start_ns; });
    std::vector<Slice> open;
    for (const Slice& slice : slices) {
      while (!open.empty() && open.back().end_ns <= slice.start_ns) open.pop_back();
      if (!open.empty()) {
        EXPECT_LE(slice.end_ns, open.back().end_ns) << "rank " << track.first;
      }
      open.push_back(slice);
      ++slices_seen;
    }
  }
  return slices_seen;
}

TEST(Trace, SlicesOfATrackNestOrAreDisjoint) {
  const Json trace = Json::parse(text_of(support::example_timeline(), support::example_rank_names()));
  EXPECT_EQ(expect_nested(trace), support::example_timeline().spans.size() + support::example_ranks);
}

TEST(Trace, GzipUnpacksToTheSameTextAndIsReproducible) {
  // 6,000 pairs on 16 ranks have about 300,000 spans, so that many pieces pass through the compressor.
  const auto timeline = support::example_timeline(6000);
  const auto names = support::example_rank_names();
  const std::string packed = text_of(timeline, names, true);
  EXPECT_EQ(tests::gunzipped(packed), text_of(timeline, names));
  EXPECT_EQ(packed, text_of(timeline, names, true));
  // Bytes 4 to 7 of a gzip header are the time stamp (RFC 1952).
  EXPECT_EQ(packed.substr(4, 4), std::string(4, '\0'));
}

TEST(Trace, StopsWhenTheSinkDoes) {
  std::size_t pieces = 0;
  const auto refuse = [&pieces](std::string_view) { return ++pieces < 2; };
  const auto timeline = support::example_timeline(2000);
  EXPECT_FALSE(write_trace({{"", &timeline, {}, "", ""}}, {}, refuse));
  EXPECT_EQ(pieces, 2u);
}

TEST(Trace, TracksAreAdjacentAndNest) {
  const auto timeline = support::example_timeline();
  model::Timeline short_one = support::example_timeline(3);
  const Json trace = Json::parse(
      text_of({{"predicted", &timeline, support::example_rank_names(), "", ""}, {"measured", &short_one, {}, "", ""}}));
  std::map<int, std::string> processes;
  std::map<int, std::size_t> slices;
  for (const Json& event : trace["traceEvents"]) {
    if (event["name"] == "process_name") processes[event["pid"]] = event["args"]["name"];
    if (event["name"] == "process_sort_index") {
      EXPECT_EQ(event["args"]["sort_index"], event["pid"]);
    }
    if (event["ph"] == "X") ++slices[event["pid"].get<int>() % 2];
  }
  EXPECT_EQ(processes.size(), 2U * support::example_ranks);
  EXPECT_EQ(processes[6], "predicted rank 3 (stages 3, 12)");
  EXPECT_EQ(processes[7], "measured rank 3");
  EXPECT_EQ(slices[0], timeline.spans.size() + support::example_ranks);
  EXPECT_EQ(slices[1], short_one.spans.size() + support::example_ranks);
  EXPECT_EQ(expect_nested(trace), timeline.spans.size() + short_one.spans.size() + 2 * support::example_ranks);
}

TEST(Trace, AnEmptyTimelineIsAValidTrace) {
  EXPECT_TRUE(Json::parse(text_of(model::Timeline(), {}))["traceEvents"].empty());
}

}  // namespace
}  // namespace plumbline::reports
