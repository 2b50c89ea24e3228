#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "model/base/random.h"
#include "model/base/text_file.h"
#include "real/executor/training/checkpoint.h"
#include "real/executor/training/detail/checkpoint_file.h"
#include "tests/support/processes.h"
#include "tests/support/real/training.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::real {
namespace {

namespace fs = std::filesystem;
using model::to_string;
using tests::on_ranks;
using tests::PlainDevice;
using Saved = model::Result<void>;
using Loaded = model::Result<TrainingProgress>;

// The state of a rank: two pieces, one of them empty, whose numbers identify step and rank.
struct State {
  explicit State(float value = 0, std::size_t elements = 1000) {
    weights.values.resize(elements);
    std::iota(weights.values.begin(), weights.values.end(), value);
    moments.values.assign(7, -value);
  }
  std::vector<StatePiece> pieces() { return {{"weights", &weights}, {"empty", &empty}, {"moments", &moments}}; }
  bool operator==(const State& other) const {
    return weights.values == other.weights.values && moments.values == other.moments.values;
  }
  tests::PlainBuffer weights, empty, moments;
};

float value_of(std::int64_t step, std::int32_t rank) { return static_cast<float>(1000 * step + 10 * rank); }

TrainingProgress progress_at(std::int64_t step) {
  return {.step = step, .updates = step - 1, .sequences = 16 * step, .loss_scale = {.factor = 4096, .good_steps = 5}};
}

class CheckpointTest : public testing::Test {
 protected:
  Saved save(std::int64_t step, std::int32_t ranks = 1) {
    const auto results = on_ranks<Saved>(ranks, [&](Communicator& communicator) {
      State state(value_of(step, communicator.rank()));
      PlainDevice device;
      return save_checkpoint(store_, progress_at(step), state.pieces(), device, communicator);
    });
    for (const Saved& result : results) EXPECT_EQ(result.has_value(), results[0].has_value());
    return results[0];
  }

  // Loads into a state of other numbers; an error must not change them.
  Loaded load(State& state, const CheckpointStore& store) {
    const State before = state;
    const auto loaded = on_ranks<Loaded>(1, [&](Communicator& communicator) {
      PlainDevice device;
      return load_checkpoint(store, state.pieces(), device, communicator);
    });
    EXPECT_TRUE(loaded[0] || state == before);
    return loaded[0];
  }
  model::Error refusal() {
    State state(0.5F);
    const auto loaded = load(state, store_);
    EXPECT_FALSE(loaded);
    return loaded ? model::Error{} : loaded.error();
  }

  fs::path file(std::int64_t step, const std::string& name = "rank-00000.bin") const {
    return fs::path(store_.folder) / ("step-0000000" + std::to_string(step)) / name;
  }
  static void change_byte(const fs::path& path, std::int64_t offset) {
    std::fstream stream(path, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(offset, offset < 0 ? std::ios::end : std::ios::beg);
    const auto byte = static_cast<char>(stream.peek() ^ 1);
    stream.seekp(offset, offset < 0 ? std::ios::end : std::ios::beg);
    stream.put(byte);
  }

  // Changes the content of a manifest and gives it the checksum that belongs to it.
  template <class Change>
  void rewrite_manifest(std::int64_t step, const Change& change) const {
    const std::string path = file(step, "manifest.json").string();
    auto manifest = nlohmann::json::parse(model::read_text_file(path).value());
    change(manifest["content"]);
    manifest["crc32"] = crc32_of(manifest["content"].dump());
    std::ofstream(path) << manifest.dump();
  }

  tests::TemporaryDirectory folder_;
  CheckpointStore store_{.folder = (folder_.path() / "new" / "run").string(),
                         .fingerprint = "[model]\nlayers = 4\n[parallelism]\npipeline = 2\n"};
};

TEST_F(CheckpointTest, EveryRankGetsItsOwnBack) {
  ASSERT_TRUE(save(12, 3));
  const auto results = on_ranks<Loaded>(3, [&](Communicator& communicator) {
    State state(0.5F);
    PlainDevice device;
    auto progress = load_checkpoint(store_, state.pieces(), device, communicator);
    EXPECT_EQ(state, State(value_of(12, communicator.rank())));
    return progress;
  });
  for (const Loaded& progress : results) {
    ASSERT_TRUE(progress) << to_string(progress.error());
    EXPECT_EQ(progress->step, 12);
    EXPECT_EQ(progress->updates, 11);
    EXPECT_EQ(progress->sequences, 192);
    EXPECT_EQ(progress->loss_scale.factor, 4096);
    EXPECT_EQ(progress->loss_scale.good_steps, 5);
  }
  EXPECT_TRUE(fs::exists(fs::path(store_.folder) / "step-00000012" / "rank-00002.bin"));
}

TEST_F(CheckpointTest, TheNewestAreKept) {
  store_.keep = 3;
  for (std::int64_t step = 1; step <= 5; ++step) ASSERT_TRUE(save(step));
  EXPECT_THAT(complete_checkpoints(store_.folder), testing::ElementsAre(3, 4, 5));
  EXPECT_EQ(std::distance(fs::directory_iterator(store_.folder), {}), 3);
  store_.keep = 0;  // the new one is kept all the same
  ASSERT_TRUE(save(6));
  EXPECT_THAT(complete_checkpoints(store_.folder), testing::ElementsAre(6));
}

TEST_F(CheckpointTest, WhatIsNotCompleteDoesNotCountAndIsRemovedByTheNextSave) {
  ASSERT_TRUE(save(1));
  const fs::path root = store_.folder;
  fs::copy(root / "step-00000001", root / ".step-00000002.partial");
  fs::create_directory(root / "step-00000003");  // no manifest
  fs::create_directory(root / "notes");
  EXPECT_EQ(latest_checkpoint(store_.folder), 1);
  ASSERT_TRUE(save(4));
  EXPECT_FALSE(fs::exists(root / ".step-00000002.partial"));
  EXPECT_TRUE(fs::exists(root / "notes"));
  EXPECT_THAT(complete_checkpoints(store_.folder), testing::ElementsAre(1, 4));
}

TEST_F(CheckpointTest, AStepThatIsThereAlreadyStays) {
  ASSERT_TRUE(save(1));
  const auto before = fs::last_write_time(file(1));
  const auto again = save(1);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().message, "a checkpoint of this step exists already");
  EXPECT_EQ(fs::last_write_time(file(1)), before);
}

TEST_F(CheckpointTest, AFolderThatCannotBeMadeIsAnErrorOnAllRanks) {
  store_.folder = folder_.write("file", "").string() + "/run";
  const auto results = on_ranks<Saved>(2, [&](Communicator& communicator) {
    State state;
    PlainDevice device;
    return save_checkpoint(store_, progress_at(1), state.pieces(), device, communicator);
  });
  ASSERT_FALSE(results[0]);
  EXPECT_EQ(results[0].error().file, store_.folder);
  EXPECT_EQ(results[0].error().kind, model::ErrorKind::input);
  ASSERT_FALSE(results[1]);
  EXPECT_EQ(results[1].error().message, "rank 0 failed");
}

TEST_F(CheckpointTest, TruncatedFilesNameThePiece) {
  ASSERT_TRUE(save(1));
  const auto bytes = fs::file_size(file(1));
  fs::resize_file(file(1), bytes - 4);
  EXPECT_EQ(refusal().message, "is cut off in piece 'moments'");
  fs::resize_file(file(1), bytes - 7 * 4 - 1);
  EXPECT_EQ(refusal().message, "is cut off in piece 'weights'");
  EXPECT_EQ(refusal().file, file(1).string());
  fs::resize_file(file(1), 30);
  EXPECT_EQ(refusal().message, "is cut off in its header");
  fs::resize_file(file(1), 10);
  EXPECT_EQ(refusal().message, "is no checkpoint of plumbline");
  fs::remove(file(1));
  EXPECT_EQ(refusal().message, "cannot be read");
}

TEST_F(CheckpointTest, EveryChangedBitOfTheHeaderIsSeen) {
  ASSERT_TRUE(save(1));
  const auto data = static_cast<std::int64_t>(fs::file_size(file(1))) - 1007 * 4;
  for (std::int64_t offset = 0; offset < data; ++offset) {
    change_byte(file(1), offset);
    EXPECT_EQ(refusal().file, file(1).string()) << offset;
    change_byte(file(1), offset);
  }
  std::ofstream(file(1), std::ios::app) << "more";
  EXPECT_EQ(refusal().message, "is longer than its header states");
}

TEST_F(CheckpointTest, DamagedManifest) {
  ASSERT_TRUE(save(1));
  const fs::path path = file(1, "manifest.json");
  const std::string text = model::read_text_file(path.string()).value();
  std::string changed = text;
  changed.replace(changed.find("\"sequences\": 16"), 15, "\"sequences\": 17");
  for (const std::string& damaged : {text.substr(0, text.size() / 2), changed, std::string("[]"), std::string()}) {
    std::ofstream(path) << damaged;
    EXPECT_EQ(refusal().message, "is damaged") << damaged;
    EXPECT_EQ(refusal().file, path.string());
  }
}

TEST_F(CheckpointTest, FilesOfAnotherCheckpointAreNoticed) {
  ASSERT_TRUE(save(1));
  ASSERT_TRUE(save(2));
  fs::copy_file(file(1), file(2), fs::copy_options::overwrite_existing);
  EXPECT_EQ(refusal().message, "is not the file that the manifest names");
  fs::remove_all(file(2).parent_path());
  fs::rename(file(1).parent_path(), file(3).parent_path());
  EXPECT_EQ(refusal().message, "a checkpoint of step 1 under another step's name");
}

TEST_F(CheckpointTest, AFileOfAnotherRankOrStepIsRefusedUnderAMatchingManifest) {
  ASSERT_TRUE(save(3));
  ASSERT_TRUE(save(4));
  fs::copy_file(file(3), file(4), fs::copy_options::overwrite_existing);
  const auto crc = CheckpointFile::open(file(4).string()).value().crc();
  rewrite_manifest(4, [&](nlohmann::json& content) { content["files_crc32"] = {crc}; });
  EXPECT_THAT(refusal().message, testing::StartsWith("is of step 3, rank 0 of 1, where step 4, rank 0 of 1 is wanted"));
}

TEST_F(CheckpointTest, NumbersThatNoTrainingHasAreRefused) {
  ASSERT_TRUE(save(3));
  const auto refused = [&](const std::string& key, const nlohmann::json& value) {
    nlohmann::json before;
    rewrite_manifest(3, [&](nlohmann::json& content) { before = std::exchange(content[key], value); });
    EXPECT_THAT(refusal().message, testing::HasSubstr("numbers that no training has")) << key;
    rewrite_manifest(3, [&](nlohmann::json& content) { content[key] = before; });
  };
  refused("updates", 4);
  refused("updates", -1);
  refused("sequences", -16);
  refused("loss_scale", {{"factor", 0}, {"good_steps", 5}});
  refused("loss_scale", {{"factor", 4096}, {"good_steps", -5}});
  State state(0.5F);
  EXPECT_TRUE(load(state, store_));
}

TEST_F(CheckpointTest, AnotherPlanIsNamedByItsFirstDifference) {
  ASSERT_TRUE(save(1));
  store_.fingerprint = "[model]\nlayers = 4\n[parallelism]\npipeline = 4\n";
  EXPECT_EQ(refusal().message, "a checkpoint of another plan or model: it has 'pipeline = 2', this run 'pipeline = 4'");
  store_.fingerprint = "[model]\nlayers = 4\n";
  EXPECT_THAT(refusal().message, testing::HasSubstr("it has '[parallelism]', this run ''"));
}

TEST_F(CheckpointTest, AnotherVersion) {
  ASSERT_TRUE(save(1));
  change_byte(file(1), static_cast<std::int64_t>(checkpoint_magic.size()));
  EXPECT_EQ(refusal().message, "is of version 0; version 1 can be read");
  const fs::path path = file(1, "manifest.json");
  std::string text = model::read_text_file(path.string()).value();
  text.replace(text.find("\"plumbline_checkpoint\": 1"), 25, "\"plumbline_checkpoint\": 2");
  std::ofstream(path) << text;
  EXPECT_EQ(refusal().message, "is of version 2; version 1 can be read");
}

TEST_F(CheckpointTest, AnotherState) {
  ASSERT_TRUE(save(1));
  State longer(0.5F, 1001);
  EXPECT_THAT(load(longer, store_).error().message, testing::StartsWith("has 1000 elements in piece 'weights'"));
}

TEST_F(CheckpointTest, DamageOfOneRankStopsAllBeforeAnythingIsOverwritten) {
  ASSERT_TRUE(save(1, 3));
  change_byte(file(1, "rank-00001.bin"), -1);
  const auto results = on_ranks<Loaded>(3, [&](Communicator& communicator) {
    State state(0.5F);
    PlainDevice device;
    auto progress = load_checkpoint(store_, state.pieces(), device, communicator);
    EXPECT_EQ(state, State(0.5F));
    return progress;
  });
  EXPECT_THAT(results[0].error().message, testing::StartsWith("rank 1 failed: "));
  EXPECT_THAT(results[0].error().message, testing::HasSubstr("is damaged in piece 'moments'"));
  EXPECT_EQ(results[1].error().message, "is damaged in piece 'moments'");
  EXPECT_EQ(results[2].error().message, "rank 1 failed");
}

}  // namespace
}  // namespace plumbline::real
