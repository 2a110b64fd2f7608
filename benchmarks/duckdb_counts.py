"""The peer for counting: all 1- to 5-grams of a text, line by line, in SQL."""

import sys
from pathlib import Path

import duckdb

QUERY = """
create temp table words as
  select line, unnest(['<s>'] || words || ['</s>']) as word, generate_subscripts(words || ['', ''], 1) as place
  from (select row_number() over () as line, string_split_regex(trim(text), '\\s+') as words
        from read_csv('{path}', columns = {{'text': 'varchar'}},
                      delim = '\\0', quote = '', escape = '', header = false));
create temp table codes as select word, row_number() over () as code from (select distinct word from words);
create temp table ids as select line, place, code from words join codes using (word);
create temp table windows as
  select code as a, lead(code, 1) over w as b, lead(code, 2) over w as c,
         lead(code, 3) over w as d, lead(code, 4) over w as e
  from ids window w as (partition by line order by place);
create temp table grams1 as select a, count(*) as n from windows group by all;
create temp table grams2 as select a, b, count(*) as n from windows where b is not null group by all;
create temp table grams3 as select a, b, c, count(*) as n from windows where c is not null group by all;
create temp table grams4 as select a, b, c, d, count(*) as n from windows where d is not null group by all;
create temp table grams5 as select a, b, c, d, e, count(*) as n from windows where e is not null group by all;
"""


def count(path: Path) -> list[int]:
    connection = duckdb.connect()
    connection.execute(QUERY.format(path=path))
    sizes = [connection.execute(f"select count(*) from grams{k}").fetchone() for k in range(1, 6)]
    return [row[0] for row in sizes if row]


if __name__ == "__main__":
    print(*count(Path(sys.argv[1])))
