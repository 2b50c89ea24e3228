// Component tables: what the loaders read and refuse, and the shipped files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "calibrate/components/load.h"
#include "model/cost/work.h"
#include "tests/support/inputs.h"
#include "tests/support/temporary_directory.h"
#include "topologies/topology.h"

namespace plumbline::calibrate {
namespace {

namespace fs = std::filesystem;

// A file of the folder h100; the rows begin in line 4.
class ComponentTables : public testing::Test {
 protected:
  std::string write(const std::string& table, int rows, const std::string& body,
                    const std::string& gpu = "h100") const {
    return folder_.write("h100/" + table + ".csv", "# gpu: " + gpu + "\n# rows: " + std::to_string(rows) + "\n" + body)
        .string();
  }
  std::string gemms(int rows, const std::string& lines) const {
    return write("gemm", rows, "software,format,m,n,512,1024\n" + lines);
  }
  void expect_refused(const std::string& path, int line, const std::string& column, const std::string& text) const {
    const auto times = check_component_table(path);
    ASSERT_FALSE(times.has_value()) << text;
    tests::expect_error(times.error(), model::ErrorKind::input, path, line, column, text);
  }

 private:
  const tests::TemporaryDirectory folder_;
};

TEST_F(ComponentTables, GemmsHaveAColumnForEachK) {
  const auto rows = load_gemm_rows(gemms(3, "a 1,bf16,64,32,2.5,\nb,fp8_block,64,32,3,4\n"));
  ASSERT_TRUE(rows) << to_string(rows.error());
  ASSERT_EQ(rows->size(), 3u);  // the empty cell is no row
  EXPECT_EQ(rows->at(0).software, "a 1");
  EXPECT_EQ(rows->at(0).k, 512);
  EXPECT_DOUBLE_EQ(rows->at(0).seconds, 2.5e-6);
  EXPECT_EQ(rows->at(2).format, "fp8_block");
  EXPECT_EQ(rows->at(2).k, 1024);
  EXPECT_DOUBLE_EQ(rows->at(2).seconds, 4e-6);
}

TEST_F(ComponentTables, GemmsMayHaveALineForEachShape) {
  const auto rows = load_gemm_rows(write("gemm", 1, "software,format,m,n,k,time_us\na,mxfp4,64,32,48,7\n"));
  ASSERT_TRUE(rows) << to_string(rows.error());
  EXPECT_EQ(rows->at(0).k, 48);
  EXPECT_DOUBLE_EQ(rows->at(0).seconds, 7e-6);
}

TEST_F(ComponentTables, HeldGemmsHaveTimeAndPower) {
  const std::string header = "software,format,power_limit_w,m,n,512\n";
  const auto rows = load_held_gemm_rows(write("gemm_held", 1, header + "a,bf16,700,64,32,2.5;690\n"));
  ASSERT_TRUE(rows) << to_string(rows.error());
  EXPECT_DOUBLE_EQ(rows->at(0).seconds, 2.5e-6);
  EXPECT_DOUBLE_EQ(rows->at(0).power_w, 690);
  EXPECT_DOUBLE_EQ(rows->at(0).power_limit_w, 700);
  for (const char* cell : {"2.5", "2.5;", "-2;690", "2.5;690;1", "nan;690", "2.5;inf"})
    expect_refused(write("gemm_held", 1, header + "a,bf16,700,64,32," + cell + "\n"), 4, "512", "MICROSECONDS;WATTS");
}

TEST_F(ComponentTables, TrainingAttentionHasPassMaskAndWindow) {
  const std::string header =
      "software,format,pass,sums,mask,window,batch,heads,kv_heads,qk_dim,v_dim,queries,keys,time_us\n";
  const std::string shape = ",2,64,8,192,128,4096,4096,900\n";
  const auto rows = load_training_attention_rows(write("attention_training", 3,
                                                       header + "a 1,bf16,forward,any_order,causal,none" + shape +
                                                           "a 1,bf16,backward,any_order,causal,128" + shape +
                                                           "a 1,mxfp8,backward,deterministic,full,none" + shape));
  ASSERT_TRUE(rows) << to_string(rows.error());
  ASSERT_EQ(rows->size(), 3u);
  EXPECT_FALSE(rows->at(0).backward);
  EXPECT_EQ(rows->at(0).window, 0);
  EXPECT_EQ(rows->at(0).keys_per_query(), 2048);
  EXPECT_DOUBLE_EQ(rows->at(0).seconds, 900e-6);
  EXPECT_TRUE(rows->at(1).backward);
  EXPECT_EQ(rows->at(1).keys_per_query(), 128 - 128.0 * 128 / 8192);  // the first queries see fewer
  EXPECT_TRUE(rows->at(2).deterministic);
  EXPECT_EQ(rows->at(2).keys_per_query(), 4096);
  const auto refused = [&](const std::string& start, const std::string& column, const std::string& text) {
    expect_refused(write("attention_training", 1, header + start + shape), 4, column, text);
  };
  refused("a,fp4,forward,any_order,causal,none", "format", "'fp4'");
  refused("a,bf16,both,any_order,causal,none", "pass", "'both'");
  refused("a,bf16,forward,any_order,causal,0", "window", "0");
}

TEST_F(ComponentTables, ScansHaveAPassAndNorms) {
  const std::string header =
      "software,recurrence,pass,norms,sequences,tokens,key_heads,value_heads,key_dim,value_dim,chunk,time_us\n";
  const std::string shape = ",4,8192,16,64,128,128,64,900\n";
  const auto rows =
      load_scan_rows(write("scan", 3,
                           header + "fla,gated_delta,forward,before" + shape + "fla,channel_delta,backward,inside" +
                               shape + "vllm,state_space,forward,before,1,8192,8,128,128,64,256,649\n"));
  ASSERT_TRUE(rows) << to_string(rows.error());
  EXPECT_FALSE(rows->at(0).backward);
  EXPECT_FALSE(rows->at(0).norms_inside);
  EXPECT_EQ(rows->at(0).value_heads, 64);
  EXPECT_TRUE(rows->at(1).backward);
  EXPECT_TRUE(rows->at(1).norms_inside);
  const model::Recurrence shape_of_states = rows->at(2).shape();
  EXPECT_EQ(shape_of_states.kind, model::RecurrenceKind::state_space);
  EXPECT_EQ(shape_of_states.key_heads, 8);
  EXPECT_EQ(shape_of_states.chunk, 256);
  expect_refused(write("scan", 1, header + "fla,delta,forward,before" + shape), 4, "recurrence", "'delta'");
}

TEST_F(ComponentTables, AnExchangeIsTwoTimes) {
  const std::string header = "software,mode,nodes,gpus,tokens,hidden,top_k,experts,sms,dispatch_us,combine_us\n";
  const auto rows = load_exchange_rows(write("exchange", 2, header + "a,normal,2,16,4096,7168,8,256,20,500,900\n"));
  ASSERT_TRUE(rows) << to_string(rows.error());
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ(rows->at(0).direction, "dispatch");
  EXPECT_DOUBLE_EQ(rows->at(0).seconds, 500e-6);
  EXPECT_EQ(rows->at(1).direction, "combine");
  EXPECT_DOUBLE_EQ(rows->at(1).seconds, 900e-6);
  EXPECT_EQ(rows->at(1).sms, 20);
  const auto refuse = [&](const std::string& line, const char* column, const char* text) {
    expect_refused(write("exchange", 2, header + line + "\n"), 4, column, text);
  };
  refuse("a,normal,2,16,4096,7168,8,256,0,500,900", "sms", "'0' is no number above 0");
  refuse("a,low_latency,2,16,4096,7168,8,256,20,500,900", "sms", "no choice of SMs");
  refuse("a,low,2,16,4096,7168,8,256,20,500,900", "mode", "known: normal, low_latency");
  refuse("a,normal,3,16,4096,7168,8,256,20,500,900", "gpus", "no multiple of 3 nodes");
  refuse("a,normal,2,16,4096,7168,8,4,20,500,900", "top_k", "more than the 4 experts");
}

TEST_F(ComponentTables, OtherTables) {
  const auto attention = load_attention_rows(
      write("attention", 1, "software,batch,tokens,heads,kv_heads,dim,time_us\na,2,1024,32,8,128,50\n"));
  ASSERT_TRUE(attention) << to_string(attention.error());
  EXPECT_EQ(attention->at(0).kv_heads, 8);
  expect_refused(write("attention", 1, "software,batch,tokens,heads,kv_heads,dim,time_us\na,2,1024,32,7,128,50\n"), 4,
                 "kv_heads", "32 heads are no multiple");
  const std::string mla = "software,part,format,batch,tokens,heads,time_us\n";
  const auto blocks = load_mla_rows(write("mla", 1, mla + "a,block,bf16/fp8/nvfp4,2,1024,128,50\n"));
  ASSERT_TRUE(blocks) << to_string(blocks.error());
  EXPECT_EQ(blocks->at(0).part, "block");
  expect_refused(write("mla", 1, mla + "a,core,bf16/fp8/nvfp4,2,1024,128,50\n"), 4, "format", "neither the format");
  const auto experts = load_expert_rows(
      write("experts", 1,
            "software,kernel,format,distribution,tokens,hidden,ffn,top_k,experts,expert_parallel,time_us\n"
            "a,b,bf16,balanced,4096,7168,2048,8,256,8,900\n"));
  ASSERT_TRUE(experts) << to_string(experts.error());
  EXPECT_EQ(experts->at(0).ffn, 2048);
  const auto collectives =
      load_collective_rows(write("collectives", 1, "software,op,gpus,bytes,time_us\nNCCL,all_to_all,8,512,9\n"));
  ASSERT_TRUE(collectives) << to_string(collectives.error());
  EXPECT_EQ(collectives->at(0).op, "all_to_all");
  const auto trays = load_tray_exchange_rows(write(
      "nvl72", 1, "kernel,direction,format,expert_parallel,tokens,time_us\nNVLinkOneSided,dispatch,nvfp4,32,64,9\n"));
  ASSERT_TRUE(trays) << to_string(trays.error());
  EXPECT_EQ(trays->at(0).expert_parallel, 32);
}

TEST_F(ComponentTables, GroupedGemmsHaveASpreadOfRows) {
  const std::string header = "software,format,row_spread,groups,m,n,k,time_us\n";
  const auto rows = load_grouped_gemm_rows(write("decode_grouped", 1, header + "a,fp8_block,0.3,4,64,4096,7168,60\n"));
  ASSERT_TRUE(rows) << to_string(rows.error());
  EXPECT_DOUBLE_EQ(rows->at(0).row_spread, 0.3);
  EXPECT_EQ(rows->at(0).groups, 4);
  for (const char* spread : {"-0.1", "1.5", "nan", "some"})
    expect_refused(write("decode_grouped", 1, header + "a,fp8_block," + spread + ",4,64,4096,7168,60\n"), 4,
                   "row_spread", "not a part from 0 to 1");
}

TEST_F(ComponentTables, RowsAreRefused) {
  expect_refused(gemms(1, "a,bf16,64,32,0,\n"), 4, "512", "'0' is no number above 0");
  expect_refused(gemms(1, "a,bf16,64,32,-2,\n"), 4, "512", "'-2' is no number above 0");
  expect_refused(gemms(1, "a,bf16,64,32,nan,\n"), 4, "512", "'nan' is no number above 0");
  expect_refused(gemms(1, "a,bf16,64,32,inf,\n"), 4, "512", "'inf' is no number above 0");
  expect_refused(gemms(1, "a,bf16,6.4,32,2,\n"), 4, "m", "no whole number");
  expect_refused(gemms(1, ",bf16,64,32,2,\n"), 4, "software", "the cell is empty");
  expect_refused(gemms(1, "a,fp8_blok,64,32,2,\n"), 4, "format", "did you mean 'fp8_block'?");
  expect_refused(gemms(2, "a,bf16,64,32,2,\na,bf16,64,32,3,\n"), 5, "", "the shape occurs twice");
  expect_refused(gemms(1, "a,bf16,64,32,2\n"), 4, "", "5 cells under 6 columns");
}

TEST_F(ComponentTables, HeadingsAreRefused) {
  const std::string body = "software,format,m,n,512\na,bf16,64,32,2\n";
  expect_refused(write("gemm", 2, body), 0, "rows", "states 2 rows, the file has 1");
  expect_refused(write("gemm", 1, body, "h200"), 1, "gpu", "the heading says h200, the folder is h100");
  expect_refused(write("gemm", 1, "software,m,n,512\n"), 3, "format", "the column is missing");
  expect_refused(write("gemm", 1, "software,format,m,n,512,512\n"), 3, "512", "two columns have this name");
  expect_refused(write("gemm", 1, "software,format,m,n\na,bf16,64,32\n"), 0, "k", "no column of times");
  expect_refused(write("gems", 1, body), 0, "", "did you mean 'gemm'?");
  const tests::TemporaryDirectory other;
  const std::string bare = other.write("h100/gemm.csv", body).string();
  expect_refused(bare, 0, "gpu", "begins with '# gpu: NAME'");
}

const std::string shipped_tables = tests::shipped("calibrate/published/components");

// Every shipped file is read, so that it holds the number of rows that its heading states.
TEST(ShippedComponentTables, AreReadAndStaySmall) {
  std::map<std::string, std::size_t> times;
  std::uintmax_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(shipped_tables)) {
    if (!entry.is_regular_file()) continue;
    bytes += entry.file_size();
    if (entry.path().extension() != ".csv") continue;
    const auto read = check_component_table(entry.path().string());
    ASSERT_TRUE(read) << to_string(read.error());
    times[entry.path().stem().string()] += *read;
  }
  EXPECT_EQ(times["gemm"], 1792u + 2 * 6552u + 4 * 8736u + 325u + 1996u);     // the source's rows; AMD's without INT8
  EXPECT_EQ(times["decode_attention"], 3704u + 287u + 293u + 21u + 4 * 26u);  // the last two: H200, four of Blackwell
  EXPECT_EQ(times["decode_mla"], 1360u + 89u + 41u + 10u);
  EXPECT_EQ(times["gemm_held"], 11808u);  // all of the source's
  EXPECT_EQ(times["attention_training"],
            119u + 187u + 2 * 300u + 2 * 282u);                // the last two: AITER's table of MI300X and MI355X
  EXPECT_EQ(times["scan"], 112u + 163u + 56u + 8u + 6u + 2u);  // h200, gb200, gb300, h20, h100, a100
  EXPECT_EQ(times.size(), 16u);
  EXPECT_LT(bytes, 3'000'000u);
}

double real(std::int64_t value) { return static_cast<double>(value); }
double squared(std::int64_t value) { return real(value) * real(value); }

// FLOPs of the kernel of a row: attention's are causal, those of experts of the mean number of rows.
double flops(const GemmRow& row) { return 2 * real(row.m * row.n) * real(row.k); }
double flops(const AttentionRow& row) { return real(row.batch * row.heads) * squared(row.tokens) * 2 * real(row.dim); }
double flops(const MlaRow& row) { return real(row.batch * row.heads) * squared(row.tokens) * (192 + 128); }
double flops(const TrainingAttentionRow& row) {
  const std::int64_t dims = row.backward ? 3 * row.qk_dim + 2 * row.v_dim : row.qk_dim + row.v_dim;
  return 2 * real(dims) * real(row.batch * row.heads) * real(row.queries) * row.keys_per_query();
}
double flops(const ScanRow& row) {
  return real(row.sequences * row.tokens * row.value_heads) *
         model::chunked_scan_work(row.shape(), 2, row.backward, true).flops;
}
double flops(const CachedAttentionRow& row) {
  return 2 * real(row.batch * row.queries * row.heads) * real(row.keys) * real(row.qk_dim + row.v_dim);
}
double flops(const ExpertRow& row) {
  return 6 * real(row.tokens * row.top_k) / real(row.expert_parallel) * real(row.hidden) * real(row.ffn);
}

// The format in which attention multiplies comes first; AttentionRow has none, and is BF16.
double peak_of(const model::Device& device, const auto& row) {
  std::string format = "bf16";
  if constexpr (requires { row.format; }) format = row.format.substr(0, row.format.find('/'));
  if (format == "bf16") return device.bf16_peak.value();
  return format.find("fp8") == std::string::npos ? 0 : device.fp8_peak.value();
}

// Clocks are sold with a tolerance, and times are rounded: 1.05 of the peak is allowed. FP4 is not checked. The device
// of a folder is the file of its name, or that with "-sxm".
TEST(ShippedComponentTables, AreSlowerThanTheirDevicesPeak) {
  const auto known = topologies::load_devices(tests::shipped("topologies/devices"));
  ASSERT_TRUE(known) << to_string(known.error());
  int checked = 0;
  for (const auto& entry : fs::directory_iterator(shipped_tables)) {
    const std::string folder = entry.path().filename().string();
    const model::Device* device = topologies::find_device(*known, folder + "-sxm");
    if (device == nullptr) device = topologies::find_device(*known, folder);
    if (!entry.is_directory() || device == nullptr) continue;
    ++checked;
    const auto check = [&](const std::string& table, const auto& load) {
      const std::string path = shipped_tables + "/" + folder + "/" + table + ".csv";
      if (!fs::exists(path)) return;
      const auto rows = load(path);
      ASSERT_TRUE(rows) << to_string(rows.error());
      for (const auto& row : *rows)
        if (const double peak = peak_of(*device, row); peak > 0) {
          EXPECT_LE(flops(row) / row.seconds, 1.05 * peak) << path;
        }
    };
    check("gemm", load_gemm_rows);
    check("decode_gemm", load_gemm_rows);
    check("decode_experts", load_expert_rows);
    check("gemm_held", load_held_gemm_rows);
    check("attention", load_attention_rows);
    check("attention_training", load_training_attention_rows);
    check("scan", load_scan_rows);
    check("mla", load_mla_rows);
    check("experts", load_expert_rows);
    check("decode_attention", load_cached_attention_rows);
    check("decode_mla", load_cached_attention_rows);
  }
  EXPECT_GE(checked, 9);  // a100, h100, h200, h20, h800, b200, gb200, mi300x, mi355x
}

}  // namespace
}  // namespace plumbline::calibrate
