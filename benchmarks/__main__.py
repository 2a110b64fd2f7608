"""`make bench`: all parts, or those that are named: python -m benchmarks [counting] [neural] [serving] ..."""

import argparse

from benchmarks import report

PARTS = ("counting", "neural", "finetuning", "translating", "tape", "explaining", "serving", "generation")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; default: all")
    parser.add_argument("--quick", action="store_true", help="small trials of each; shown, but kept nowhere")
    arguments = parser.parse_args()
    unknown = set(arguments.parts) - set(PARTS)
    if unknown:
        parser.error(f"there is no part '{unknown.pop()}' (there are: {', '.join(PARTS)})")
    if not arguments.parts or "counting" in arguments.parts:
        from benchmarks import counting

        counting.main(["--quick"] if arguments.quick else [])
    if not arguments.parts or "neural" in arguments.parts:
        from benchmarks import throughput, time_to_quality

        time_to_quality.main(["--steps", "100"] if arguments.quick else ["--repeats", "3"])
        throughput.main(["--trial"] if arguments.quick else [])
    if not arguments.parts or "finetuning" in arguments.parts:
        from benchmarks import finetuning

        finetuning.main(["--trial"] if arguments.quick else [])
    if not arguments.parts or "translating" in arguments.parts:
        from benchmarks import translating

        translating.main(["--trial"] if arguments.quick else [])
    if not arguments.parts or "tape" in arguments.parts:
        from benchmarks import tape

        tape.main(["--trial"] if arguments.quick else [])
    if not arguments.parts or "explaining" in arguments.parts:
        from benchmarks import explaining

        explaining.main(["--trial"] if arguments.quick else [])
    if not arguments.parts or "serving" in arguments.parts:
        from benchmarks import serving

        serving.main(["--trial"] if arguments.quick else [])
    if not arguments.parts or "generation" in arguments.parts:
        from benchmarks import generation

        generation.main(["--trial"] if arguments.quick else [])
    print(report.BENCHMARKS.path)


if __name__ == "__main__":
    main()
