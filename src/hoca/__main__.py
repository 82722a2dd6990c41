from hoca.cli import main

main()
