// A measured profile moved by a user's own records: what they move, how far, and what stays.
#include "calibrate/fit/refinement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "calibrate/fit/detail/gpu_records.h"
#include "calibrate/fit/profile_fit.h"
#include "calibrate/measurement/measurement.h"
#include "tests/support/costs.h"
#include "tests/support/temporary_directory.h"
#include "topologies/topology.h"

namespace plumbline::calibrate {
namespace {

Measurement gemm(std::int64_t m, std::int64_t n, std::int64_t k) {
  Measurement made;
  made.source = "a test";
  made.device = "NVIDIA H100 80GB HBM3";
  made.op = "gemm";
  made.phase = "F";
  made.format = "bf16";
  made.variant = "burst";
  made.cache = "cold";
  made.sms = 132;
  made.shape = {{"m", m}, {"n", n}, {"k", k}, {"groups", 1}};
  made.flops = 2.0 * static_cast<double>(m * n * k);
  made.time.p50 = 1;
  made.case_line = "gemm " + std::to_string(m) + " " + std::to_string(n) + " " + std::to_string(k);
  return made;
}

class Refinements : public testing::Test {
 protected:
  // Adds the first shapes of a sweep.
  void add_gemms(std::size_t count) {
    for (const std::int64_t k : {2048, 4096, 8192, 1536, 3072})
      for (const std::int64_t n : {4096, 8192, 14336})
        for (const std::int64_t m : {1024, 4096, 8192})
          if (files_[0].values.size() < count) files_[0].values.push_back(gemm(m, n, k));
  }

  // Gives every record the time that it has with the constants of `truth`, and returns the records.
  FitRecords timed(const model::Profile& truth) {
    const FitRecords untimed = fit_records(files_).value();
    const GpuRecords gpu(untimed, device_);
    const auto predicted = gpu.predict(truth).value();
    for (std::size_t i = 0; i < predicted.size(); ++i) files_[0].values[i].time.p50 = predicted[i].seconds;
    return fit_records(files_).value();
  }

  model::Profile with(const std::string& name, double factor) const {
    std::vector<model::Parameter> parameters = base_.parameters();
    for (model::Parameter& parameter : parameters)
      if (parameter.name == name) parameter.value *= factor;
    return {base_.name(), "", std::move(parameters), {}, "", base_.fits()};
  }

  static const RefinedConstant* find(const Refinement& refined, const std::string& name) {
    const auto found = std::ranges::find(refined.constants, name, [](const auto& one) { return one.constant.name; });
    return found == refined.constants.end() ? nullptr : &*found;
  }

  double value(const std::string& name) const { return base_.parameters()[base_.find(name).value()].value; }

  const model::Profile base_ = tests::profile("h100");
  const model::Device device_ = tests::h800_device();
  std::vector<Measurements> files_ = std::vector<Measurements>(1);
};

double worst(std::vector<double> errors) {
  for (double& error : errors) error = std::abs(error);
  return *std::ranges::max_element(errors);
}

TEST_F(Refinements, MoveTheConstantThatIsOffAndNoOther) {
  add_gemms(30);
  const FitRecords records = timed(with("gemm.bf16.k_time", 1.08));
  const Refinement refined = refine_profile(records, base_, device_, "a test").value();
  const RefinedConstant* k_time = find(refined, "gemm.bf16.k_time");
  ASSERT_NE(k_time, nullptr);
  EXPECT_NEAR(k_time->constant.value, 1.08 * value("gemm.bf16.k_time"), 0.03 * value("gemm.bf16.k_time"));
  EXPECT_GT(k_time->moved, 0.5);
  EXPECT_LT(*k_time->constant.relative_uncertainty, k_time->prior);
  EXPECT_EQ(k_time->constant.kind, model::Evidence::fitted);
  EXPECT_EQ(find(refined, "gemm.fp8.k_time"), nullptr);   // no record has FP8
  EXPECT_EQ(find(refined, "gemm.bf16.tile_m"), nullptr);  // states no uncertainty
  ASSERT_EQ(refined.families.size(), 1u);
  EXPECT_GT(worst(refined.families[0].before), 0.06);
  EXPECT_LT(worst(refined.families[0].errors), 0.03);
  EXPECT_LT(worst(refined.families[0].left_out), 0.04);
}

TEST_F(Refinements, RecordsAsPredictedMoveNothing) {
  add_gemms(30);
  const Refinement refined = refine_profile(timed(base_), base_, device_, "a test").value();
  for (const RefinedConstant& one : refined.constants) EXPECT_NEAR(one.moved, 0, 1e-3) << one.constant.name;
  EXPECT_LT(worst(refined.families.at(0).errors), 1e-4);
}

TEST_F(Refinements, FewRecordsMoveLessThanMany) {
  const model::Profile truth = with("gemm.bf16.k_time", 1.15);
  double before = 0;
  for (const std::size_t count : {1, 4, 30}) {
    add_gemms(count);
    const Refinement refined = refine_profile(timed(truth), base_, device_, "a test").value();
    const RefinedConstant* k_time = find(refined, "gemm.bf16.k_time");
    ASSERT_NE(k_time, nullptr) << count;
    EXPECT_GT(k_time->moved, before) << count;
    before = k_time->moved;
  }
}

// Ten records of one shape are off together as its form is: they weigh as one.
TEST_F(Refinements, RecordsOfOneShapeCountAsOne) {
  const model::Profile truth = with("gemm.bf16.k_time", 1.15);
  files_[0].values.push_back(gemm(4096, 8192, 4096));
  const double once = find(refine_profile(timed(truth), base_, device_, "").value(), "gemm.bf16.k_time")->moved;
  for (int i = 0; i < 9; ++i) {
    files_[0].values.push_back(gemm(4096, 8192, 4096));
    files_[0].values.back().case_line += " name=" + std::to_string(i);
  }
  EXPECT_NEAR(find(refine_profile(timed(truth), base_, device_, "").value(), "gemm.bf16.k_time")->moved, once, 0.02);
}

TEST_F(Refinements, ADisturbedRecordPullsLittle) {
  add_gemms(30);
  FitRecords records = timed(base_);
  records.gemms[3].seconds *= 5;
  const Refinement refined = refine_profile(records, base_, device_, "a test").value();
  for (const RefinedConstant& one : refined.constants) EXPECT_LT(std::abs(one.moved), 0.3) << one.constant.name;
}

TEST_F(Refinements, AreWrittenAsAProfileThatExtendsTheOther) {
  add_gemms(30);
  const FitRecords records = timed(with("gemm.bf16.k_time", 1.08));
  const Refinement refined = refine_profile(records, base_, device_, "a test").value();
  std::vector<model::Parameter> constants;
  for (const RefinedConstant& one : refined.constants) constants.push_back(one.constant);
  const tests::TemporaryDirectory folder;
  const auto file = folder.write("mine.toml", profile_text({"mine", "moved", "h100"}, constants, refined.fits));
  const auto mine = model::load_profile(file.string(), tests::frozen("profiles"));
  ASSERT_TRUE(mine) << model::to_string(mine.error());
  const GpuComparison gpu = compare_gpu(records, *mine, device_).value();
  EXPECT_NEAR(gpu.families.at(0).median, 1, 0.01);
  EXPECT_EQ(mine->parameters().size(), base_.parameters().size());
  EXPECT_EQ(mine->devices(), base_.devices());
}

// Of the records of which `others` holds.
double median_error(const GpuRecords& gpu, const model::Profile& profile, const std::vector<bool>& others) {
  const auto predicted = gpu.predict(profile).value();
  std::vector<double> errors;
  for (std::size_t i = 0; i < predicted.size(); ++i)
    if (others[i]) errors.push_back(std::abs(predicted[i].seconds / gpu.all()[i].seconds - 1));
  std::ranges::sort(errors);
  return errors.at(errors.size() / 2);
}

// A profile that no record of the GPU was fitted to predicts its other GEMMs better after thirty of them.
TEST_F(Refinements, ThirtyGemmsOfAGpuHelpItsOthers) {
  const auto devices = topologies::load_devices(tests::shipped("topologies/devices")).value();
  files_[0] = load_measurements(tests::shipped("calibrate/measured/nvidia-h200-2026-11-27.jsonl"), devices).value();
  FitRecords all = fit_records(files_).value();
  const model::Device& device = *topologies::find_device(devices, all.device);
  const model::Profile h200 = tests::profile("h200");
  for (auto* other : {&all.attention, &all.memory, &all.small_gemms}) other->clear();
  all.launches.clear();
  all.collectives.clear();
  const GpuRecords gpu(all, device);
  double before = 0, after = 0;
  std::mt19937 random(1);
  for (int draw = 0; draw < 6; ++draw) {
    std::vector<FitRecord> shuffled = all.gemms;
    std::ranges::shuffle(shuffled, random);
    FitRecords some = all;
    some.gemms.clear();
    std::vector<bool> others(all.gemms.size(), true);
    for (const FitRecord& chosen : shuffled)  // shape by shape
      for (std::size_t i = 0; i < others.size() && some.gemms.size() < 30; ++i) {
        const Measurement& m = *all.gemms[i].measurement;
        if (!others[i] || m.shape != chosen.measurement->shape || m.format != chosen.format) continue;
        some.gemms.push_back(all.gemms[i]);
        others[i] = false;
      }
    const Refinement refined = refine_profile(some, h200, device, "").value();
    std::vector<model::Parameter> parameters = h200.parameters();
    for (const RefinedConstant& one : refined.constants)
      parameters[h200.find(one.constant.name).value()] = one.constant;
    before += median_error(gpu, h200, others);
    after += median_error(gpu, {h200.name(), "", parameters, h200.devices()}, others);
  }
  EXPECT_LT(after, 0.97 * before);
}

// Times in another unit, or of another machine, are no news of a GPU.
TEST_F(Refinements, RefuseTimesThatAreOffByAFactor) {
  add_gemms(30);
  for (const double factor : {1.0 / 3, 0.6, 1.8, 3.0, 1000.0}) {
    FitRecords records = timed(base_);
    for (FitRecord& record : records.gemms) record.seconds *= factor;
    const auto refined = refine_profile(records, base_, device_, "a test");
    EXPECT_EQ(refined.has_value(), factor > 0.5 && factor < 2) << factor;
    if (!refined) {
      EXPECT_EQ(refined.error().key, "MEASUREMENTS");
    }
  }
}

TEST_F(Refinements, RefuseWhatCannotMove) {
  Measurement other = gemm(4096, 4096, 4096);
  other.op = "host_to_device";
  files_[0].values.push_back(other);
  EXPECT_EQ(refine_profile(fit_records(files_).value(), base_, device_, "").error().key, "MEASUREMENTS");
  files_[0].values.clear();
  add_gemms(3);
  std::vector<model::Parameter> sure = base_.parameters();
  for (model::Parameter& parameter : sure) parameter.relative_uncertainty.reset();
  const model::Profile exact("exact", "", sure);
  EXPECT_EQ(refine_profile(timed(base_), exact, device_, "").error().key, "--refine");
}

}  // namespace
}  // namespace plumbline::calibrate
