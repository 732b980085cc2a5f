import com.espertech.esper.common.client.EPCompiled;
import com.espertech.esper.common.client.EventBean;
import com.espertech.esper.common.client.configuration.Configuration;
import com.espertech.esper.compiler.client.CompilerArguments;
import com.espertech.esper.compiler.client.EPCompilerProvider;
import com.espertech.esper.runtime.client.EPRuntime;
import com.espertech.esper.runtime.client.EPRuntimeProvider;
import com.espertech.esper.runtime.client.EPStatement;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/**
 * V shapes on Esper: args are a file of trades (company, price; one each millisecond), the pattern, and the window.
 *
 * <p>Prints the CPU seconds of the thread in its second pass, the number of matches, and a sum over them.
 */
public class StockOnEsper {
  public static class Trade {
    private final int company;
    private final int price;
    private final long at;

    public Trade(int company, int price, long at) {
      this.company = company;
      this.price = price;
      this.at = at;
    }

    public int getCompany() {
      return company;
    }

    public int getPrice() {
      return price;
    }

    public long getAt() {
      return at;
    }
  }

  static long matches;
  static long sum;

  static String text(String operator, long window) {
    String fields = "a.company as company, a.price as p1, b.price as p2, c.price as p3";
    if (operator.equals(";")) {
      return "@name('v') select " + fields + " from pattern [every a=Trade -> ("
          + "every b=Trade(company = a.company and price < a.price and at > a.at) -> "
          + "every c=Trade(company = a.company and price > b.price and price > a.price and at > b.at)) "
          + "where timer:within(" + (window + 1) + " milliseconds)]";
    }
    return "@name('v') select * from Trade match_recognize (measures A.company as company, A.price as p1, "
        + "B.price as p2, C.price as p3 all matches after match skip to next row pattern (A B C) define "
        + "B as B.company = A.company and B.price < A.price, "
        + "C as C.company = A.company and C.price > B.price and C.price > A.price)";
  }

  static double pass(int number, Trade[] trades, String operator, long window) throws Exception {
    Configuration configuration = new Configuration();
    configuration.getCommon().addEventType("Trade", Trade.class);
    configuration.getRuntime().getThreading().setInternalTimerEnabled(false);
    EPCompiled compiled =
        EPCompilerProvider.getCompiler().compile(text(operator, window), new CompilerArguments(configuration));
    EPRuntime runtime = EPRuntimeProvider.getRuntime("pass" + number, configuration);
    runtime.initialize();
    runtime.getEventService().advanceTime(0);
    EPStatement statement = runtime.getDeploymentService().deploy(compiled).getStatements()[0];
    matches = 0;
    sum = 0;
    statement.addListener((fresh, old, of, in) -> {
      for (EventBean row : fresh) {
        matches++;
        sum += (int) row.get("company") * 1_000_000_000L + (int) row.get("p1") * 1_000_000L
            + (int) row.get("p2") * 1000L + (int) row.get("p3");
      }
    });
    var clock = ManagementFactory.getThreadMXBean();
    long begun = clock.getCurrentThreadCpuTime();
    for (Trade trade : trades) {
      runtime.getEventService().advanceTime(trade.getAt());
      runtime.getEventService().sendEventBean(trade, "Trade");
    }
    double seconds = (clock.getCurrentThreadCpuTime() - begun) / 1e9;
    runtime.destroy();
    return seconds;
  }

  public static void main(String[] args) throws Exception {
    List<String> lines = Files.readAllLines(Path.of(args[0]));
    Trade[] trades = new Trade[lines.size()];
    for (int k = 0; k < trades.length; k++) {
      String[] cells = lines.get(k).split(",");
      trades[k] = new Trade(Integer.parseInt(cells[0]), Integer.parseInt(cells[1]), k + 1);
    }
    pass(1, trades, args[1], Long.parseLong(args[2]));
    double seconds = pass(2, trades, args[1], Long.parseLong(args[2]));
    System.out.println(seconds + " " + matches + " " + sum);
  }
}
