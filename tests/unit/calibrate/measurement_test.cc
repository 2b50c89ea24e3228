#include "calibrate/measurement/measurement.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/inputs.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::calibrate {
namespace {

using model::ErrorKind;
using tests::expect_error;
using tests::shipped;

std::vector<topologies::KnownDevice> devices() {
  return topologies::load_devices(shipped("topologies/devices")).value();
}

// 2 * 4096 * 24576 * 1536 = 309.2376 GFLOP in 300 us: 1030.79 TFLOP/s. 245.8 MB in 300 us: 819.2 GB/s.
const std::string gemm_record =
    R"({"schema":1,"kind":"measurement","source":"probe 1","device":"NVIDIA H200","date":"2026-11-21T10:00:00Z",)"
    R"("op":"gemm","name":"deepseek-v3/q_b","phase":"F","format":"fp8_block",)"
    R"("case":"gemm name=deepseek-v3/q_b phase=F format=fp8_block m=4096 n=24576 k=1536",)"
    R"("shape":{"m":4096,"n":24576,"k":1536,"groups":1},"sms":132,"communication_ctas":0,"target_sms":0,)"
    R"("cache":"cold","variant":"burst","samples":30,"time_us":{"p10":290,"p50":300,"p90":310.5,"min":288.25},)"
    R"("flops":309237645312,"bytes":245760000,"tflops":1030.79,"gbps":819.2,)"
    R"("check":{"relative_error":0.0012,"tolerance":0.05,"ok":true},)"
    R"("clock":{"sm_mhz":1755,"memory_mhz":3201,"power_w":612.5,"throttle":"none"},)"
    R"("algorithm":{"tile":"128x128","stages":4},"note":"the first, of \"many\""})";
const std::string norm =
    R"({"schema":1,"kind":"measurement","source":"probe 1","device":"NVIDIA H200","op":"rmsnorm",)"
    R"("shape":{"rows":4096,"columns":7168},"cache":"cold","time_us":{"p50":35},"bytes":117454848})";
const std::string failure =
    R"({"schema":1,"kind":"failure","source":"probe 1","device":"NVIDIA H200","op":"gemm","reason":"no memory"})";
const std::string environment =
    R"({"schema":1,"kind":"environment","source":"probe 1","device":"NVIDIA H200","sms":132,)"
    R"("environment":{"driver":"580.95","libraries":{"cublasLt":"13.1"}}})";

std::string changed(std::string text, const std::string& from, const std::string& to) {
  const std::size_t found = text.find(from);
  EXPECT_NE(found, std::string::npos) << from;
  return text.replace(found, from.size(), to);
}

model::Result<Measurements> parse(const std::string& text, const std::string& path = "m.jsonl") {
  return parse_measurements(text, path, devices());
}

// Expects that `line` is refused as the second line of a file.
void expect_refused(const std::string& line, const std::string& key, const std::string& text) {
  const auto read = parse(norm + "\n" + line + "\n");
  ASSERT_FALSE(read) << line;
  expect_error(read.error(), ErrorKind::input, "m.jsonl", 2, key, text);
}

TEST(Measurement, ReadsEveryFieldInSiUnits) {
  const auto read = parse(gemm_record + "\n");
  ASSERT_TRUE(read) << to_string(read.error());
  ASSERT_EQ(read->values.size(), 1u);
  const Measurement& m = read->values[0];
  EXPECT_EQ(m.source, "probe 1");
  EXPECT_EQ(m.evidence, model::Evidence::measured);
  EXPECT_EQ(m.device, "NVIDIA H200");
  EXPECT_EQ(m.op, "gemm");
  EXPECT_EQ(m.name, "deepseek-v3/q_b");
  EXPECT_EQ(m.phase, "F");
  EXPECT_EQ(m.format, "fp8_block");
  EXPECT_EQ(m.shape, (Shape{{"m", 4096}, {"n", 24576}, {"k", 1536}, {"groups", 1}}));
  EXPECT_EQ(m.sms, 132);
  EXPECT_EQ(m.communication_sms, 0);
  EXPECT_EQ(m.samples, 30);
  EXPECT_DOUBLE_EQ(m.time.p50, 300e-6);
  EXPECT_DOUBLE_EQ(m.time.p10.value(), 290e-6);
  EXPECT_DOUBLE_EQ(m.time.p90.value(), 310.5e-6);
  EXPECT_DOUBLE_EQ(m.flop_rate().value(), 309237645312.0 / 300e-6);
  EXPECT_DOUBLE_EQ(m.byte_rate().value(), 245760000 / 300e-6);
  EXPECT_TRUE(m.check.value().ok);
  EXPECT_DOUBLE_EQ(m.check->tolerance, 0.05);
  EXPECT_DOUBLE_EQ(m.clock.power_w.value(), 612.5);
  EXPECT_FALSE(m.clock.temperature_c);
  EXPECT_EQ(m.algorithm, R"({"tile":"128x128","stages":4})");
  EXPECT_TRUE(read->notes.empty());
}

TEST(Measurement, KeepsFailuresAndEnvironments) {
  const auto read = parse(environment + "\n\n" + failure + "\n");
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_TRUE(read->values.empty());
  ASSERT_EQ(read->failures.size(), 1u);
  EXPECT_EQ(read->failures[0].reason, "no memory");
  ASSERT_EQ(read->environments.size(), 1u);
  EXPECT_EQ(read->environments[0].properties, R"({"driver":"580.95","libraries":{"cublasLt":"13.1"}})");
}

TEST(Measurement, TimesComeInAnyUnitOfTheirKey) {
  for (const char* unit : {R"("time_us":{"p50":35})", R"("time_ns":{"p50":35000})", R"("time_ms":{"p50":0.035})",
                           R"("time_s":{"p50":3.5e-5})"}) {
    const auto read = parse(changed(norm, R"("time_us":{"p50":35})", unit));
    ASSERT_TRUE(read) << to_string(read.error());
    EXPECT_DOUBLE_EQ(read->values[0].time.p50, 35e-6) << unit;
  }
}

TEST(Measurement, WorkFollowsFromAStatedRate) {
  // 1000 TFLOP/s * 300 us = 3e11 FLOP, 3 % away from the GEMM's 3.09e11.
  const std::string rate_alone =
      R"({"kind":"measurement","source":"a paper","evidence":"published","device":"H800 SXM5","op":"gemm",)"
      R"("format":"fp8_block","time_us":{"p50":300},"tflops":1000})";
  const auto read = parse(rate_alone);
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(read->values[0].evidence, model::Evidence::published);
  EXPECT_DOUBLE_EQ(read->values[0].flops.value(), 3e11);
}

TEST(Measurement, WorkOfAGemmFollowsFromItsShape) {
  const std::string header = "source,device,op,format,shape.m,shape.n,shape.k,time_us.p50\n";
  const auto read = parse(header + "a benchmark,NVIDIA H200,gemm,bf16,8192,8192,8192,1580\n", "m.csv");
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_DOUBLE_EQ(read->values[0].flops.value(), 2.0 * 8192 * 8192 * 8192);
  // 1.0995e12 FLOP in 1000 us are 1099.5 TFLOP/s, more than 989.
  const auto fast = parse(header + "a benchmark,NVIDIA H200,gemm,bf16,8192,8192,8192,1000\n", "m.csv");
  ASSERT_FALSE(fast);
  expect_error(fast.error(), ErrorKind::input, "m.csv", 2, "tflops", "above the datasheet peak");
}

TEST(Measurement, RefusesBrokenLines) {
  expect_refused("{\"kind\":", "", "not a JSON object");
  expect_refused("[1]", "", "not a JSON object");
  expect_refused(changed(gemm_record, R"("p50":300)", R"("p50":NaN)"), "", "JSON has no NaN");
  expect_refused(changed(gemm_record, R"("m":4096)", R"("m":[4096])"), "shape.m", "a single value");
  expect_refused(changed(gemm_record, R"("sms":132)", R"("sms":[132])"), "sms", "an array is not expected");
}

TEST(Measurement, RefusesMissingAndUnknownKeys) {
  expect_refused(changed(gemm_record, R"("device":"NVIDIA H200",)", ""), "device", "required key is missing");
  expect_refused(changed(gemm_record, R"("source":"probe 1",)", ""), "source", "required key is missing");
  expect_refused(changed(gemm_record, R"("op":"gemm",)", ""), "op", "required key is missing");
  expect_refused(changed(gemm_record, R"("p50":300,)", ""), "time_us.p50", "required key is missing");
  expect_refused(changed(gemm_record, R"("tolerance":0.05,)", ""), "check.tolerance", "required key is missing");
  expect_refused(changed(failure, R"("reason":"no memory")", R"("reason":"")"), "reason", "required key is missing");
  expect_refused(changed(gemm_record, R"("target_sms")", R"("targt_sms")"), "targt_sms", "did you mean 'target_sms'?");
  expect_refused(changed(gemm_record, R"("target_sms")", R"("columns")"), "columns", "did you mean 'shape.columns'?");
  expect_refused(changed(failure, R"("op")", R"("flops":1,"op")"), "flops", "has no such key");
  expect_refused(changed(gemm_record, R"("kind":"measurement")", R"("kind":"measure")"), "kind", "no kind of record");
  expect_refused(changed(gemm_record, R"("schema":1)", R"("schema":2)"), "schema", "schema 2 is not known");
}

TEST(Measurement, RefusesValuesOfTheWrongKind) {
  expect_refused(changed(gemm_record, R"("sms":132)", R"("sms":"132")"), "sms", "not a whole number");
  expect_refused(changed(gemm_record, R"("sms":132)", R"("sms":132.5)"), "sms", "not a whole number");
  expect_refused(changed(gemm_record, R"("m":4096)", R"("m":0)"), "shape.m", "not above 0");
  expect_refused(changed(gemm_record, R"("ok":true)", R"("ok":1)"), "check.ok", "not true or false");
  expect_refused(changed(gemm_record, R"("cache":"cold")", R"("cache":"warm")"), "cache", "one of hot, cold");
  expect_refused(changed(gemm_record, R"("phase":"F")", R"("phase":"G")"), "phase", "'G' is not known");
  expect_refused(changed(gemm_record, R"("algorithm":{"tile":"128x128","stages":4})", R"("algorithm":"a")"),
                 "algorithm", "expected a JSON object");
}

TEST(Measurement, RefusesUnitsThatDoNotFit) {
  expect_refused(changed(gemm_record, "time_us", "time_min"), "time_min.p10", "unknown unit 'min'");
  expect_refused(changed(gemm_record, "time_us", "time"), "time.p10", "a time without a unit");
  // Milliseconds under a key of microseconds: 309.2 GFLOP in 0.3 us would be 1.03e6 TFLOP/s, not the given 1030.79.
  const std::string milliseconds = R"("time_us":{"p50":0.3})";
  expect_refused(changed(gemm_record, R"("time_us":{"p10":290,"p50":300,"p90":310.5,"min":288.25})", milliseconds),
                 "tflops", "not in the unit of its key");
  expect_refused(changed(gemm_record, R"("gbps":819.2)", R"("gbps":0.8192)"), "gbps", "0.8192 is stated");
  // The record has half the FLOPs of the shape, with a rate that fits them.
  expect_refused(changed(changed(gemm_record, "309237645312", "154618822656"), "1030.79", "515.395"), "flops",
                 "2 m n k of the shape is 3.09238e+11");
}

TEST(Measurement, RefusesTimesThatCannotBe) {
  expect_refused(changed(norm, R"("p50":35)", R"("p50":0)"), "time_us.p50", "not above 0");
  expect_refused(changed(norm, R"("p50":35)", R"("p50":-35)"), "time_us.p50", "not above 0");
  expect_refused(changed(norm, R"("p50":35)", R"("p50":1e-320)"), "time_us.p50", "beyond what a number can hold");
  expect_refused(changed(gemm_record, R"("p10":290)", R"("p10":300.5)"), "time_us.p50",
                 "less than time_us.p10, 300.5 us");
  expect_refused(changed(gemm_record, R"("p90":310.5)", R"("p90":299)"), "time_us.p90",
                 "less than time_us.p50, 300 us");
}

TEST(Measurement, KeepsSamplesAndTheirDeviation) {
  // Deviations from the median 35: 1, 0, 4; their median is 1.
  const std::string sampled = changed(norm, R"("time_us":{"p50":35})",
                                      R"("samples":3,"samples_s":[3.4e-5,3.5e-5,3.9e-5],"time_us":{"p50":35,"mad":1})");
  const auto read = parse(sampled);
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(read->values[0].time.samples, (std::vector<double>{34e-6, 35e-6, 39e-6}));
  EXPECT_DOUBLE_EQ(read->values[0].time.mad.value(), 1e-6);
  const std::string lines = to_jsonl(*read), table = to_csv(*read);
  EXPECT_NE(lines.find(R"("samples_s":[3.4e-05,3.5e-05,3.9e-05])"), std::string::npos) << lines;
  EXPECT_NE(table.find("3.4e-05;3.5e-05;3.9e-05"), std::string::npos) << table;
  const auto from_table = parse(table, "m.csv");
  ASSERT_TRUE(from_table) << to_string(from_table.error());
  EXPECT_EQ(to_jsonl(*from_table), lines);
  EXPECT_TRUE(parse(changed(sampled, R"("mad":1)", R"("mad":0)")));
  expect_refused(changed(sampled, R"("mad":1)", R"("mad":-1)"), "time_us.mad", "negative");
  expect_refused(changed(sampled, R"("samples":3)", R"("samples":4)"), "samples_s", "3 samples are listed, 4");
  expect_refused(changed(sampled, "3.9e-5", "-3.9e-5"), "samples_s", "not above 0");
  expect_refused(changed(sampled, "3.9e-5", "\"slow\""), "samples_s", "an array of numbers");
  expect_refused(changed(sampled, "[3.4e-5,3.5e-5,3.9e-5]", "[34,35,39]"), "samples_s", "lies outside");
}

TEST(Measurement, RefusesDuplicates) {
  const std::string other_time = changed(norm, R"("p50":35)", R"("p50":36)");
  expect_refused(other_time, "", "the same case as on line 1");
  EXPECT_TRUE(parse(norm + "\n" + changed(norm, "cold", "hot") + "\n"));
  EXPECT_TRUE(parse(norm + "\n" + changed(norm, "NVIDIA H200", "NVIDIA H800") + "\n"));
  for (const char* difference : {R"("sms":132,"op")", R"("communication_ctas":20,"op")", R"("target_sms":112,"op")",
                                 R"("format":"bf16","op")", R"("name":"a","op")"})
    EXPECT_TRUE(parse(norm + "\n" + changed(norm, R"("op")", difference) + "\n")) << difference;
}

TEST(Measurement, RefusesRatesAboveTheDatasheet) {
  // H200: 1979 TFLOP/s FP8, 989 TFLOP/s BF16, 4.8 TB/s, and 5 % above each. 309.2 GFLOP in 297 us (1041 TFLOP/s) are
  // too fast for BF16, in 148 us (2089 TFLOP/s) also for FP8.
  const auto lasting = [](const std::string& time) {
    return changed(changed(gemm_record, R"({"p10":290,"p50":300,"p90":310.5,"min":288.25})", time),
                   R"("tflops":1030.79,"gbps":819.2,)", "");
  };
  expect_refused(changed(lasting(R"({"p50":297})"), "\"format\":\"fp8_block\"", "\"format\":\"bf16\""), "tflops",
                 "above the datasheet peak of h200-sxm, 989 TFLOP/s");
  expect_refused(lasting(R"({"p50":148})"), "tflops", "2089 TFLOP/s in fp8_block is above");
  EXPECT_TRUE(parse(lasting(R"({"p50":150})")));
  // 117.5 MB in 13.3 us: even with 50 MB of results left in the cache 67.5 MB in 13.3 us are 5072 GB/s.
  const std::string streaming = changed(changed(norm, R"("p50":35)", R"("p50":13.3)"), "rmsnorm", "swiglu");
  expect_refused(streaming, "gbps", "above the datasheet bandwidth of h200-sxm, 4800 GB/s");
  EXPECT_TRUE(parse(changed(streaming, "cold", "hot")));
  EXPECT_TRUE(parse(changed(streaming, R"("p50":13.3)", R"("p50":13.5)")));
}

TEST(Measurement, RefusesADeviceThatContradictsTheFilesName) {
  for (const char* path : {"nvidia-h100-80gb-hbm3-2026-11-22.jsonl", "my-B200.jsonl"}) {
    const auto read = parse(norm + "\n" + gemm_record + "\n", path);
    ASSERT_FALSE(read) << path;
    expect_error(read.error(), ErrorKind::input, path, 1, "device", "'NVIDIA H200', but the file's name says");
  }
  for (const char* path : {"nvidia-h200-2026-11-22-h100-chunk.jsonl", "h100-and-h200.jsonl", "h2000.jsonl"})
    EXPECT_TRUE(parse(norm + "\n", path)) << path;
}

TEST(Measurement, RefusesRecordsOfSeveralFilesThatContradictEachOther) {
  const auto of = [](const std::string& line, const char* path) { return parse(line + "\n", path).value(); };
  const std::string slower = changed(norm, R"("p50":35)", R"("p50":40)"),
                    slow = changed(norm, R"("p50":35)", R"("p50":71)");
  EXPECT_TRUE(check_repeats({of(norm, "a.jsonl"), of(slower, "b.jsonl")}));  // another run
  const auto twice = check_repeats({of(norm, "a.jsonl"), of(norm, "b.jsonl")});
  ASSERT_FALSE(twice);
  expect_error(twice.error(), ErrorKind::input, "b.jsonl", 1, "", "the same record as a.jsonl:1");
  const auto contradicted = check_repeats({of(norm, "a.jsonl"), of(slow, "b.jsonl")});
  ASSERT_FALSE(contradicted);
  expect_error(contradicted.error(), ErrorKind::input, "b.jsonl", 1, "time_us.p50", "71 us, but a.jsonl:1 has 35 us");
}

TEST(Measurement, AnUnknownDeviceIsANote) {
  const auto read = parse(changed(changed(norm, "NVIDIA H200", "Some GPU"), R"("p50":35)", R"("p50":1)"));
  ASSERT_TRUE(read) << to_string(read.error());
  ASSERT_EQ(read->notes.size(), 1u);
  EXPECT_EQ(read->notes[0], "no datasheet of 'Some GPU' is known: its rates are not checked");
}

TEST(Measurement, AKilledProgramLosesItsLastLineOnly) {
  const auto read = parse(norm + "\n" + gemm_record.substr(0, 200));
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_EQ(read->values.size(), 1u);
  ASSERT_EQ(read->notes.size(), 1u);
  EXPECT_EQ(read->notes[0], "line 2 is unfinished and left out");
}

TEST(Measurement, BothFormsHoldTheSame) {
  const auto read = parse(gemm_record + "\n" + failure + "\n" + norm + "\n" + environment + "\n");
  ASSERT_TRUE(read) << to_string(read.error());
  const std::string lines = to_jsonl(*read);
  const std::string table = to_csv(*read);
  const auto from_table = parse(table, "m.csv");
  ASSERT_TRUE(from_table) << to_string(from_table.error());
  EXPECT_EQ(to_jsonl(*from_table), lines);
  const auto from_lines = parse(lines);
  ASSERT_TRUE(from_lines) << to_string(from_lines.error());
  EXPECT_EQ(to_csv(*from_lines), table);
  EXPECT_EQ(from_lines->values.size(), 2u);
  EXPECT_DOUBLE_EQ(from_lines->values[0].time.p90.value(), 310.5e-6);
  EXPECT_EQ(from_lines->values[0].note, "the first, of \"many\"");
  // Only the order of the keys, the order of the kinds and the digits of rates may differ from what was read.
  EXPECT_NE(lines.find(R"("time_us":{"p10":290,"p50":300,"p90":310.5,"min":288.25})"), std::string::npos) << lines;
}

TEST(Measurement, TableErrorsNameTheLine) {
  const std::string header = "# what this is\nsource,device,op,shape.rows,time_us.p50,bytes\n";
  const auto read = parse(header + "a paper,NVIDIA H200,rmsnorm,4096,35,\n", "m.csv");
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_FALSE(read->values[0].bytes);
  const auto expect_table_refused = [&](const std::string& row, const std::string& key, const std::string& text) {
    const auto refused = parse(header + "a paper,NVIDIA H200,rmsnorm,4096,35,\n" + row + "\n", "m.csv");
    ASSERT_FALSE(refused) << row;
    expect_error(refused.error(), ErrorKind::input, "m.csv", 4, key, text);
  };
  expect_table_refused("a,b,c,1,nan,", "time_us.p50", "not a finite number");
  expect_table_refused("a,b,c,1,,", "time_us.p50", "required key is missing");
  expect_table_refused("a,b,c,1,35", "", "5 cells under 6 columns");
  expect_table_refused("a,\"b,c,1,35,", "", "a quote is not closed");
  expect_table_refused("a paper,NVIDIA H200,rmsnorm,4096,36,", "", "the same case as on line 3");
  const auto unknown = parse("source,device,op,time_p50\n", "m.csv");
  ASSERT_FALSE(unknown);
  expect_error(unknown.error(), ErrorKind::input, "m.csv", 0, "", "holds no record");
}

TEST(Measurement, FilesAreNamedByTheirForm) {
  const tests::TemporaryDirectory folder;
  const std::string file = folder.write("h200.jsonl", gemm_record + "\n").string();
  EXPECT_TRUE(load_measurements(file, devices()));
  const std::string text = folder.write("h200.txt", gemm_record + "\n").string();
  const auto other = load_measurements(text, devices());
  ASSERT_FALSE(other);
  expect_error(other.error(), ErrorKind::input, text, 0, "", "ends in .jsonl or .csv");
  EXPECT_FALSE(load_measurements((folder.path() / "missing.jsonl").string(), devices()));
}

}  // namespace
}  // namespace plumbline::calibrate
