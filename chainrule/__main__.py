from chainrule.cli.main import main

main()
